"""Pages of topics: a client that asks for the next page until there is none has seen every topic once, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.routing.concatenated import Concatenations, concatenate
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree
from tests.routing.kit.world import AP, EU, NAMES, US, WORLD, World, as_sent

API = ApiKey.DESCRIBE_TOPIC_PARTITIONS
BIGGEST_PAGE = 4
"""The largest page of a broker."""


class Broker:
    """Answers like a broker of Kafka 4.3. topics: the number of partitions of each, by its name there."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = topics

    def answer(self, request: Tree) -> Tree:
        cursor = request["cursor"] or {"topic_name": "", "partition_index": 0}
        asked = [each["name"] for each in request["topics"]] or list(self._topics)
        assert request["cursor"] is None or cursor["topic_name"] in asked, "a broker refuses it"
        room = max(min(BIGGEST_PAGE, request["response_partition_limit"]), 1)
        topics: list[Tree] = []
        for name in sorted(each for each in set(asked) if each >= cursor["topic_name"]):
            if name not in self._topics:
                topics.append({"name": name, "error_code": 3})
                continue
            start = cursor["partition_index"] if name == cursor["topic_name"] else 0
            indexes = range(start, self._topics[name])
            topics.append({"name": name, "error_code": 0, "partitions": [_partition(each) for each in indexes[:room]]})
            if len(indexes) > room:
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": indexes[room]}}
            room -= len(indexes)
        return {"topics": topics, "next_cursor": None}


def _partition(index: int) -> Tree:
    return {"partition_index": index, "leader_id": 1, "replica_nodes": [1, 2], "error_code": 0}


def brokers(partitions: Mapping[str, int]) -> Mapping[LeafNumber, Broker]:
    """partitions: of each topic, by its name for clients."""
    by_leaf: dict[LeafNumber, dict[str, int]] = {leaf: {} for leaf in WORLD.leaves}
    for name, count in partitions.items():
        if (owner := WORLD.owner(name)) is not None:
            by_leaf[owner.leaf][owner.topic] = count
    return {leaf: Broker(topics) for leaf, topics in by_leaf.items()}


def page(
    of: Mapping[LeafNumber, Broker],
    topics: Sequence[str],
    limit: int,
    cursor: Tree | None = None,
    down: frozenset[LeafNumber] = frozenset(),
    world: World = WORLD,
) -> Tree:
    given = {"topics": [{"name": name} for name in topics], "response_partition_limit": limit, "cursor": cursor}
    division = split(API, 0, as_sent(API, 0, Direction.REQUEST, given), world, EU)
    answers = {
        leaf: as_sent(API, 0, Direction.RESPONSE, of[leaf].answer(as_sent(API, 0, Direction.REQUEST, piece.request)))
        for leaf, piece in division.pieces.items()
        if leaf not in down
    }
    return as_sent(API, 0, Direction.RESPONSE, merge(division, answers))


def pages(of: Mapping[LeafNumber, Broker], topics: Sequence[str], limit: int, world: World = WORLD) -> Iterator[Tree]:
    cursor = None
    for _ in range(200):
        answer = page(of, topics, limit, cursor, world=world)
        yield answer
        if (cursor := answer["next_cursor"]) is None:
            return
    raise AssertionError("it does not end")


COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 7))


@given(COUNTS, st.lists(st.sampled_from([*NAMES, "no.one", "ap.none"]), min_size=1, max_size=9), st.integers(0, 9))
@settings(deadline=None)
def test_every_partition_is_on_one_page_in_order(counts: dict[str, int], asked: list[str], limit: int) -> None:
    found: list[tuple[str, int | None]] = []
    for answer in pages(brokers(counts), asked, limit):
        partitions = [(each["name"], one["partition_index"]) for each in answer["topics"] for one in each["partitions"]]
        assert len(partitions) <= max(limit, 1)
        found += partitions
        for topic in answer["topics"]:
            assert topic["error_code"] == (0 if topic["name"] in counts else 3)
            found += [] if topic["name"] in counts else [(topic["name"], None)]
    expected = [
        (name, index) for name in sorted(set(asked)) for index in (range(counts[name]) if name in counts else [None])
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [each for each in found if each[1] is not None] == [each for each in expected if each[1] is not None]


@given(COUNTS, st.integers(1, 9))
@settings(deadline=None)
def test_all_topics_are_those_that_are_shown(counts: dict[str, int], limit: int) -> None:
    """A topic that has disappeared since it was listed is left out."""
    world = World(hidden=["eu.abc"], known=sorted({*counts, "us.gone"} - {"eu.abc"}))
    names = [each["name"] for answer in pages(brokers(counts), [], limit, world) for each in answer["topics"]]
    assert list(dict.fromkeys(names)) == sorted(counts.keys() - {"eu.abc"})


def test_nodes_are_those_of_clients_and_no_page_is_waited_for_a_cluster_that_is_down() -> None:
    counts = {"ap.x": 2, "eu.a": 1, "us.a": 1}
    answer = page(brokers(counts), sorted(counts), 100, down=frozenset({EU}))
    assert [(each["name"], each["error_code"]) for each in answer["topics"]] == [("ap.x", 0), ("eu.a", 5), ("us.a", 0)]
    (partition, _) = answer["topics"][0]["partitions"]
    assert partition["replica_nodes"] == [AP << 20 | 1, AP << 20 | 2]
    assert answer["next_cursor"] is None


def test_a_cursor_that_fits_no_topic_is_refused_as_by_a_broker() -> None:
    for cursor in ({"topic_name": "eu.b", "partition_index": 0}, {"topic_name": "eu.a", "partition_index": -1}):
        answer = page({}, ["eu.a"], 9, cursor)
        assert [(each["name"], each["error_code"]) for each in answer["topics"]] == [("eu.a", 42)]


def test_only_topics_that_nobody_has() -> None:
    answer = page({}, ["no.b", "no.a"], 9)
    assert [(each["name"], each["error_code"]) for each in answer["topics"]] == [("no.a", 3), ("no.b", 3)]


JOINED = concatenate("eu.joined", "eu", [(EU, "eu.joined", 3), (US, "joined", 2), (AP, "denioj", 4)])


def joined_world(*known: str) -> World:
    return JoinedWorld(known=sorted({*known, "eu.joined"}), concatenated=Concatenations([JOINED]))


class JoinedWorld(World):
    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        part = self.concatenated.part(leaf, topic)
        return super().client_name(leaf, topic) if part is None else part.name


def joined_brokers(counts: Mapping[str, int], widths: Sequence[int]) -> Mapping[LeafNumber, Broker]:
    """widths: the number of partitions of each part; 0: it does not exist."""
    by_leaf: dict[LeafNumber, dict[str, int]] = {leaf: {} for leaf in WORLD.leaves}
    for name, count in counts.items():
        if (owner := WORLD.owner(name)) is not None:
            by_leaf[owner.leaf][owner.topic] = count
    for part, width in zip(JOINED.parts, widths, strict=True):
        if width:
            by_leaf[part.leaf][part.topic] = width
    return {leaf: Broker(topics) for leaf, topics in by_leaf.items()}


@given(COUNTS, st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any), st.integers(0, 9), st.booleans())
@settings(deadline=None)
def test_a_concatenated_topic_has_all_its_partitions_once(
    counts: dict[str, int], widths: list[int], limit: int, is_asked_for: bool
) -> None:
    """Partitions that a part lacks have no leader; those beyond its width are on no page."""
    asked = sorted({*counts, "eu.joined"}) if is_asked_for else []
    found: list[tuple[str, int]] = []
    leaders: dict[int, int] = {}
    for answer in pages(joined_brokers(counts, widths), asked, limit, joined_world(*counts)):
        for topic in answer["topics"]:
            assert topic["error_code"] == 0
            assert topic["name"] != "eu.joined" or topic["topic_id"] == JOINED.id
            found += [(topic["name"], each["partition_index"]) for each in topic["partitions"]]
            if topic["name"] == "eu.joined":
                leaders |= {each["partition_index"]: each["leader_id"] for each in topic["partitions"]}
    expected = [(name, index) for name in sorted(counts) for index in range(counts[name])]
    assert sorted(found) == sorted(expected + [("eu.joined", index) for index in range(JOINED.width)])
    assert found == sorted(found)
    for part, width in zip(JOINED.parts, widths, strict=True):
        for number in range(part.first, part.end):
            leader = part.leaf << 20 | 1 if number - part.first < width else -1
            assert leaders[number] == leader


def test_a_concatenated_topic_that_no_cluster_has_is_not_there() -> None:
    answer = page(joined_brokers({}, (0, 0, 0)), ["eu.joined"], 9, world=joined_world())
    assert [(each["name"], each["error_code"], each["partitions"]) for each in answer["topics"]] == [
        ("eu.joined", 3, [])
    ]


def test_a_part_whose_cluster_is_down_has_no_leaders() -> None:
    down = frozenset({US})
    answer = page(joined_brokers({}, (3, 2, 4)), ["eu.joined"], 99, down=down, world=joined_world())
    (topic,) = answer["topics"]
    assert topic["error_code"] == 0
    assert [each["leader_id"] for each in topic["partitions"]] == [1, 1, 1, -1, -1, *[AP << 20 | 1] * 4]
    assert {each["error_code"] for each in topic["partitions"] if each["leader_id"] < 0} == {5}
