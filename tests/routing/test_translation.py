"""Frames between a client and a leaf: requests in the names of the cluster, answers in those of the union."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from mesh.routing.concatenated import PartIds, PartsAtLeaf, epoch_offset_after
from mesh.routing.kit.union_apis import UNION_APIS, LeafDestination
from mesh.routing.moves.move import Location, Move
from mesh.routing.moves.move import Side as Place
from mesh.routing.moves.names import MovedNames
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NODE_BITS, NodeIds
from mesh.routing.translation import HomeUnknown, LeafTranslation
from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ProtocolError
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.produce_batches import body_of
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.routing.unions import RENAMED, SAME, union_of
from tests.wire.entities.messages import MESSAGES

US = 1
TOLD = US << NODE_BITS


class Addresses:
    """Every node has an address, except 9."""

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return ("mesh", 9_000 + node) if node != 9 else None


class Tags:
    """Producer ids of the home are a thousand higher elsewhere, as soon as the home is known."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.is_known = is_known

    def tagged(self, producer_id: int) -> int:
        if not self.is_known:
            raise HomeUnknown
        return producer_id + 1_000

    def untagged(self, producer_id: int) -> int:
        return producer_id - 1_000 if producer_id >= 1_000 else producer_id


def translation(leaf: int = US, config: Mapping[str, Any] = RENAMED, tags: Tags | None = None) -> LeafTranslation:
    union = union_of(config)
    ids = NodeIds([each.number for each in union.leaves])
    return LeafTranslation(union.leaves[leaf].number, ids, union, Addresses(), frozenset({ApiKey.METADATA}), tags)


def passed(
    to: LeafTranslation, api_key: ApiKey, version: int, request: Tree, more: Callable[[bytes], bytes] | None = None
) -> Tree | None:
    """The request as the cluster reads it; None: it does not pass. more: adds something to the body that no reader
    knows; so does the header, then."""
    tags = b"\0" if is_flexible(api_key, version) else b""
    content = write_tree(api_key, version, Direction.REQUEST, request)
    rest = b"\x00\x02me" + (tags if more is None else b"\1\5\1x"[: 4 * len(tags)])
    rest += content if more is None else more(content)
    frame = bytearray(REQUEST_HEAD.pack(8 + len(rest), api_key, version, 7) + rest)
    translated = to.request(RequestHead(8 + len(rest), api_key, version, 7), memoryview(frame))
    if translated is None:
        return None
    told = memoryview(b"".join(translated.frame))
    assert REQUEST_HEAD.unpack_from(told) == (len(told) - 4, api_key, version, 7)
    body = body_of(api_key, version, told)
    assert bytes(told[12:body]) == b"\x00\x02me" + tags
    found = read_tree(api_key, version, Direction.REQUEST, told[body:])
    assert write_tree(api_key, version, Direction.REQUEST, found) == told[body:], "nothing else passes"
    return found


def answered(to: LeafTranslation, api_key: ApiKey, version: int, answer: Tree) -> Tree:
    """The answer as the client reads it."""
    head = b"\0\0\0\7" + (b"\0" if has_tagged_response_header(api_key, version) else b"")
    told = b"".join(
        to.answer(api_key, version, memoryview(head + write_tree(api_key, version, Direction.RESPONSE, answer)))
    )
    assert int.from_bytes(told[:4], "big") == len(told) - 4
    assert told[4 : 4 + len(head)] == head
    return read_tree(api_key, version, Direction.RESPONSE, told[4 + len(head) :])


def offsets(*topics: str) -> Tree:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
    return {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]} for name in topics]}


@pytest.mark.parametrize("version", [1, 6, 10])
def test_a_request_passes_under_the_names_of_its_cluster(version: int) -> None:
    request = passed(translation(), ApiKey.LIST_OFFSETS, version, offsets("us.orders", "us.payments"))
    assert request is not None
    assert [each["name"] for each in request["topics"]] == ["orders", "payments"]


@pytest.mark.parametrize("foreign", [("orders",), ("us.orders", "orders"), ("us.",)])
def test_a_request_with_a_topic_of_another_leaf_does_not_pass(foreign: tuple[str, ...]) -> None:
    assert passed(translation(), ApiKey.LIST_OFFSETS, 6, offsets(*foreign)) is None


@pytest.mark.parametrize(("group", "passes"), [("us-one", True), ("one", False)])
def test_groups_pass_at_their_home(group: str, passes: bool) -> None:
    request: Tree = {"group_id": group, "generation_id": 1, "member_id": "m"}
    for leaf in (0, US):
        assert (passed(translation(leaf), ApiKey.HEARTBEAT, 4, request) is not None) is (passes is (leaf == US))


@pytest.mark.parametrize("leaf", [0, US])
@pytest.mark.parametrize("version", [13, 18])
def test_a_fetch_by_topic_id_passes_unread(leaf: int, version: int) -> None:
    frame = memoryview(bytearray(REQUEST_HEAD.pack(30, ApiKey.FETCH, version, 7) + bytes(22)))
    request = translation(leaf).request(RequestHead(30, ApiKey.FETCH, version, 7), frame)
    assert request is not None
    assert request.is_answered
    [passed] = request.frame
    assert passed is frame


def test_apis_that_never_pass() -> None:
    assert passed(translation(), ApiKey.METADATA, 12, {"topics": []}) is None


@pytest.mark.parametrize("config", [RENAMED, SAME])
def test_answers_have_the_names_and_nodes_of_the_union(config: Mapping[str, Any]) -> None:
    upstream = "orders" if config is RENAMED else "us.orders"
    answer = {
        "responses": [
            {
                "name": upstream,
                "partition_responses": [{"index": 0, "current_leader": {"leader_id": 2, "leader_epoch": 5}}],
            }
        ],
        "node_endpoints": [{"node_id": 2, "host": "b2", "port": 1}, {"node_id": 9, "host": "b9", "port": 1}],
    }
    told = answered(translation(config=config), ApiKey.PRODUCE, 10, answer)
    assert told["responses"][0]["name"] == "us.orders"
    assert told["responses"][0]["partition_responses"][0]["current_leader"]["leader_id"] == TOLD | 2
    (endpoint,) = told["node_endpoints"]
    assert (endpoint["node_id"], endpoint["host"], endpoint["port"]) == (TOLD | 2, "mesh", 9_002)


def test_hidden_topics_are_left_out_of_answers() -> None:
    def of(name: str) -> Tree:
        return {"name": name, "partitions": [{"partition_index": 0, "partition_size": 1}]}

    answer = {
        "results": [{"log_dir": "/a", "topics": [of("us.orders"), of("hidden")]}, {"log_dir": "/b", "topics": []}]
    }
    told = answered(translation(config=SAME), ApiKey.DESCRIBE_LOG_DIRS, 4, answer)
    assert [[each["name"] for each in result["topics"]] for result in told["results"]] == [["us.orders"], []]


def test_what_has_its_home_elsewhere_is_not_listed() -> None:
    groups = [{"group_id": name, "protocol_type": "consumer"} for name in ("us-one", "one")]
    told = answered(translation(), ApiKey.LIST_GROUPS, 4, {"groups": groups})
    assert [each["group_id"] for each in told["groups"]] == ["us-one"]
    told = answered(translation(0), ApiKey.LIST_GROUPS, 4, {"groups": groups})
    assert [each["group_id"] for each in told["groups"]] == ["one"]
    states = [{"transactional_id": name, "producer_id": 1} for name in ("us-one", "one")]
    told = answered(translation(), ApiKey.LIST_TRANSACTIONS, 0, {"transaction_states": states})
    assert [each["transactional_id"] for each in told["transaction_states"]] == ["us-one"]


def batch(producer_id: int) -> bytes:
    """A batch without records, as far as it is looked at, with a wrong CRC, which stays wrong."""
    head = (0).to_bytes(8, "big") + (49).to_bytes(4, "big") + bytes(4) + b"\x02" + b"\1\2\3\4" + bytes(2)
    return head + bytes(4) + bytes(16) + producer_id.to_bytes(8, "big", signed=True) + bytes(2) + bytes(4) + bytes(4)


def produce(*topics: str, transactional_id: str | None = None, acks: int = -1) -> Tree:
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 1_000,
        "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": batch(5)}]} for name in topics],
    }


def producer_ids(request: Tree | None) -> list[int]:
    assert request is not None
    records = [each["records"] for topic in request["topic_data"] for each in topic["partition_data"]]
    return [int.from_bytes(each[43:51], "big", signed=True) for each in records]


@pytest.mark.parametrize("version", [3, 9, 12])
def test_producer_ids_of_the_home_are_tagged_elsewhere(version: int) -> None:
    request = produce("us.orders", "us.payments")
    assert producer_ids(passed(translation(tags=Tags()), ApiKey.PRODUCE, version, request)) == [1_005, 1_005]
    assert producer_ids(passed(translation(tags=None), ApiKey.PRODUCE, version, request)) == [5, 5]
    transactional = produce("us.orders", transactional_id="us-one")
    assert producer_ids(passed(translation(tags=Tags()), ApiKey.PRODUCE, version, transactional)) == [5]


def test_nothing_is_produced_while_the_home_of_producer_ids_is_unknown() -> None:
    assert passed(translation(tags=Tags(is_known=False)), ApiKey.PRODUCE, 9, produce("us.orders")) is None


def test_a_transaction_passes_at_its_home() -> None:
    assert passed(translation(), ApiKey.PRODUCE, 9, produce("us.orders", transactional_id="one")) is None


def test_a_produce_without_acks_is_not_answered() -> None:
    to = translation()
    for acks, is_answered in ((0, False), (1, True), (-1, True)):
        rest = b"\x00\x02me" + b"\0" + write_tree(ApiKey.PRODUCE, 9, Direction.REQUEST, produce("us.orders", acks=acks))
        head = RequestHead(8 + len(rest), ApiKey.PRODUCE, 9, 7)
        translated = to.request(head, memoryview(bytearray(REQUEST_HEAD.pack(*head) + rest)))
        assert translated is not None
        assert translated.is_answered is is_answered


def test_tagged_producers_are_shown_as_clients_know_them() -> None:
    active = [{"producer_id": 1_005}, {"producer_id": 6}]
    answer = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "active_producers": active}]}]}
    told = answered(translation(tags=Tags()), ApiKey.DESCRIBE_PRODUCERS, 0, answer)
    producers = told["topics"][0]["partitions"][0]["active_producers"]
    assert [each["producer_id"] for each in producers] == [5, 6]


def subscription(*topics: str) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + (-1).to_bytes(4, "big", signed=True)


def test_members_of_a_classic_group_subscribe_under_the_names_of_their_cluster() -> None:
    def join(*topics: str) -> Tree:
        protocol = {"name": "range", "metadata": subscription(*topics)}
        return {"group_id": "us-one", "protocol_type": "consumer", "protocols": [protocol]}

    request = passed(translation(), ApiKey.JOIN_GROUP, 5, join("us.orders"))
    assert request is not None
    assert request["protocols"][0]["metadata"] == subscription("orders")
    both = passed(translation(), ApiKey.JOIN_GROUP, 5, join("us.orders", "orders", "x" * 250))
    assert both is not None
    at_home = both["protocols"][0]["metadata"]
    assert at_home == subscription("orders", "another-cluster/orders")
    told = answered(translation(), ApiKey.JOIN_GROUP, 5, {"members": [{"member_id": "m", "metadata": at_home}]})
    assert told["members"][0]["metadata"] == subscription("us.orders", "orders")


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_offsets_pass_if_all_are_of_one_cluster(version: int) -> None:
    def fetch(topics: list[Tree] | None) -> Tree:
        asked: Tree = {"group_id": "us-one", "topics": topics}
        return {"groups": [asked]} if version >= 8 else asked

    def of(*names: str) -> list[Tree]:
        return [{"name": name, "partition_indexes": [0]} for name in names]

    request = passed(translation(), ApiKey.OFFSET_FETCH, version, fetch(of("us.orders")))
    assert request is not None
    told = request["groups"][0] if version >= 8 else request
    assert [each["name"] for each in told["topics"]] == ["orders"]
    assert passed(translation(), ApiKey.OFFSET_FETCH, version, fetch(of("us.orders", "orders"))) is None
    assert passed(translation(), ApiKey.OFFSET_FETCH, version, fetch(None)) is None


def test_offsets_of_topics_that_are_named_by_their_ids_do_not_pass() -> None:
    """Nothing in them names the cluster."""
    assert passed(translation(), ApiKey.OFFSET_COMMIT, 10, {"group_id": "us-one", "topics": []}) is None
    assert passed(translation(), ApiKey.OFFSET_COMMIT, 9, {"group_id": "us-one", "topics": []}) is not None
    assert passed(translation(), ApiKey.OFFSET_FETCH, 10, {"groups": [{"group_id": "us-one", "topics": []}]}) is None


@pytest.mark.parametrize(
    ("leaf", "config", "version", "walked"),
    [
        (0, SAME, 11, None),
        (0, SAME, 15, None),
        (0, SAME, 16, 0),
        (US, SAME, 10, None),
        (US, SAME, 11, None),
        (US, SAME, 12, US),
        (US, RENAMED, 12, None),
        (US, RENAMED, 13, US),
    ],
)
def test_which_answers_stream(leaf: int, config: Mapping[str, Any], version: int, walked: int | None) -> None:
    walker = translation(leaf, config).walker(ApiKey.FETCH, version, 100)
    assert (walker is not None) == (walked is not None)


@pytest.mark.parametrize(
    ("leaf", "config", "version", "is_changed"),
    [(0, SAME, 15, False), (0, SAME, 16, True), (US, SAME, 10, False), (US, SAME, 11, True), (US, RENAMED, 4, True)],
)
def test_which_answers_are_changed(leaf: int, config: Mapping[str, Any], version: int, is_changed: bool) -> None:
    assert translation(leaf, config).is_changed(ApiKey.FETCH, version, is_plain=False) is is_changed


def test_a_request_that_does_not_fit_is_refused() -> None:
    rest = b"\x00\x02me" + b"\0" + write_tree(ApiKey.LIST_OFFSETS, 6, Direction.REQUEST, offsets("us.orders"))[:-3]
    head = RequestHead(8 + len(rest), ApiKey.LIST_OFFSETS, 6, 7)
    with pytest.raises(ProtocolError):
        translation().request(head, memoryview(bytearray(REQUEST_HEAD.pack(*head) + rest)))


# Parts of concatenated topics

JOINED: Mapping[str, Any] = {
    **SAME,
    "concatenated": [
        {"name": "joined", "parts": [{"route": "eu", "width": 4}, {"route": "us", "topic": "joined-us", "width": 2}]}
    ],
}
OTHER_ID, REAL_ID = UUID(int=7), UUID(int=8)


def joined_id() -> UUID:
    (topic,) = union_of(JOINED).concatenated
    return topic.id


def with_parts(leaf: int = US, *, is_known: bool = True) -> LeafTranslation:
    """us has reported the id of its part, unless it is not known."""
    union, part_ids = union_of(JOINED), PartIds()
    if is_known:
        part_ids.learn(union.leaves[US].number, "joined-us", REAL_ID)
    number = union.leaves[leaf].number
    parts = PartsAtLeaf(number, union.concatenated, part_ids)
    ids = NodeIds([each.number for each in union.leaves])
    return LeafTranslation(number, ids, union, Addresses(), frozenset({ApiKey.METADATA}), None, parts)


def listed(name: str, *partitions: int) -> Tree:
    asked = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": -2} for each in partitions]
    return {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}


@pytest.mark.parametrize("version", [1, 6, 10])
def test_partitions_of_a_part_pass_with_its_own_numbers(version: int) -> None:
    told = passed(with_parts(), ApiKey.LIST_OFFSETS, version, listed("joined", 4, 5))
    assert told is not None
    (topic,) = told["topics"]
    assert topic["name"] == "joined-us"
    assert [each["partition_index"] for each in topic["partitions"]] == [0, 1]
    answer = {"topics": [{"name": "joined-us", "partitions": [{"partition_index": 1}]}]}
    (topic,) = answered(with_parts(), ApiKey.LIST_OFFSETS, version, answer)["topics"]
    assert (topic["name"], topic["partitions"][0]["partition_index"]) == ("joined", 5)


@pytest.mark.parametrize("partitions", [(3,), (4, 3), (6,)])
def test_partitions_of_another_part_do_not_pass(partitions: tuple[int, ...]) -> None:
    assert passed(with_parts(), ApiKey.LIST_OFFSETS, 6, listed("joined", *partitions)) is None


def test_other_topics_of_the_leaf_keep_their_numbers() -> None:
    told = passed(with_parts(), ApiKey.LIST_OFFSETS, 6, listed("us.other", 4))
    assert told == passed(translation(US, SAME), ApiKey.LIST_OFFSETS, 6, listed("us.other", 4))
    assert passed(with_parts(), ApiKey.LIST_OFFSETS, 6, listed("joined-us", 0)) is None, "no name of it"


def fetch(topic_id: UUID, *partitions: int) -> Tree:
    asked = [
        {"partition": each, "fetch_offset": 0, "partition_max_bytes": 9, "current_leader_epoch": -1}
        for each in partitions
    ]
    return {
        "max_wait_ms": 1,
        "min_bytes": 1,
        "max_bytes": 9,
        "session_id": 3,
        "session_epoch": 4,
        "topics": [{"topic_id": topic_id, "partitions": asked}],
        "forgotten_topics_data": [{"topic_id": topic_id, "partitions": [5]}],
    }


@pytest.mark.parametrize("version", [13, 17])
def test_a_fetch_by_the_id_of_a_concatenated_topic(version: int) -> None:
    told = passed(with_parts(), ApiKey.FETCH, version, fetch(joined_id(), 4))
    assert told is not None
    (topic,), (forgotten,) = told["topics"], told["forgotten_topics_data"]
    assert (topic["topic_id"], topic["partitions"][0]["partition"]) == (REAL_ID, 0)
    assert forgotten == {"topic_id": REAL_ID, "partitions": [1]}
    assert told["session_id"] == 3


def test_a_fetch_of_what_is_not_there_does_not_pass() -> None:
    assert passed(with_parts(), ApiKey.FETCH, 17, fetch(joined_id(), 4, 0)) is None
    assert passed(with_parts(is_known=False), ApiKey.FETCH, 17, fetch(joined_id(), 4)) is None
    told = passed(with_parts(), ApiKey.FETCH, 17, fetch(OTHER_ID, 5))
    assert told is not None and told["topics"][0]["topic_id"] == OTHER_ID, "its cluster says that it has no such topic"


@pytest.mark.parametrize(("version", "is_walked"), [(4, False), (12, False), (13, True), (18, True)])
def test_fetched_partitions_have_the_numbers_of_clients(version: int, is_walked: bool) -> None:
    body = {"responses": [{"topic_id": REAL_ID, "topic": "joined-us", "partitions": [{"partition_index": 1}]}]}
    frame = (
        b"\0\0\0\7" + (b"\0" if version >= 12 else b"") + write_tree(ApiKey.FETCH, version, Direction.RESPONSE, body)
    )
    walker = with_parts().walker(ApiKey.FETCH, version, len(frame))
    assert (walker is not None) is is_walked
    if walker is None:
        (topic,) = answered(with_parts(), ApiKey.FETCH, version, body)["responses"]
    else:
        told = b"".join(walker.feed(memoryview(bytearray(frame))))
        (topic,) = read_tree(ApiKey.FETCH, version, Direction.RESPONSE, told[5:])["responses"]
    assert topic["partitions"][0]["partition_index"] == 5
    assert topic["topic_id"] == joined_id() if version >= 13 else topic["topic"] == "joined"


@pytest.mark.parametrize("version", [9, 13])
def test_records_are_produced_to_a_part(version: int) -> None:
    topic = {"name": "joined", "topic_id": joined_id(), "partition_data": [{"index": 5, "records": batch(1)}]}
    request = {"transactional_id": None, "acks": -1, "timeout_ms": 9, "topic_data": [topic]}
    told = passed(with_parts(), ApiKey.PRODUCE, version, request)
    assert told is not None
    (topic,) = told["topic_data"]
    assert topic["topic_id"] == REAL_ID if version >= 13 else topic["name"] == "joined-us"
    assert topic["partition_data"][0]["index"] == 1
    answer = {"responses": [{"name": "joined-us", "topic_id": REAL_ID, "partition_responses": [{"index": 1}]}]}
    (topic,) = answered(with_parts(), ApiKey.PRODUCE, version, answer)["responses"]
    assert topic["partition_responses"][0]["index"] == 5
    for is_plain in (False, True):
        assert with_parts().is_changed(ApiKey.PRODUCE, version, is_plain=is_plain)


def moved(cuts: int = 3) -> LeafTranslation:
    """An answer of us, which got the topic orders by so many moves."""
    seats = Location("eu", "orders"), Location("us", "orders")
    move = Move("orders", OTHER_ID, 3, *seats, at=Place.AWAY, is_copying=False, ends=(1, 1, 1), cuts=cuts)
    names, ids = MovedNames(union_of(RENAMED), [move]), PartIds()
    ids.learn(LeafNumber(US), "orders", REAL_ID)
    parts = PartsAtLeaf(LeafNumber(US), names.concatenated, ids)
    return LeafTranslation(
        LeafNumber(US), NodeIds([LeafNumber(0), LeafNumber(US)]), names, Addresses(), frozenset(), None, parts
    )


EPOCHS = epoch_offset_after(3)


@pytest.mark.parametrize("version", [11, 12, 17])
@pytest.mark.parametrize(("told", "known"), [(EPOCHS + 4, 4), (EPOCHS, 0), (EPOCHS - 1, -1), (4, -1), (-1, -1)])
def test_epochs_of_a_topic_that_was_moved_are_those_of_its_cluster_again(version: int, told: int, known: int) -> None:
    asked = {"partition": 1, "fetch_offset": 5, "partition_max_bytes": 9, "current_leader_epoch": told}
    if version >= 12:
        asked["last_fetched_epoch"] = 4
    topic = {"topic": "orders", "topic_id": OTHER_ID, "partitions": [asked]}
    request = {**fetch(OTHER_ID), "topics": [topic], "forgotten_topics_data": []}
    passed_on = passed(moved(), ApiKey.FETCH, version, request)
    assert passed_on is not None
    (partition,) = passed_on["topics"][0]["partitions"]
    assert (partition["current_leader_epoch"], partition.get("last_fetched_epoch", -1)) == (known, -1)


def test_a_client_of_a_topic_that_was_moved_finds_no_truncated_log() -> None:
    asked = {"partition": 1, "current_leader_epoch": EPOCHS + 2, "leader_epoch": 57}
    request = {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [asked]}]}
    told = passed(moved(), ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)
    assert told is not None
    (partition,) = told["topics"][0]["partitions"]
    assert (partition["current_leader_epoch"], partition["leader_epoch"]) == (2, -1)
    unknown = {"partition": 1, "error_code": 0, "leader_epoch": -1, "end_offset": -1}
    answer = {"topics": [{"topic": "orders", "partitions": [unknown]}]}
    (topic,) = answered(moved(), ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, answer)["topics"]
    assert (topic["partitions"][0]["leader_epoch"], topic["partitions"][0]["end_offset"]) == (0, (1 << 63) - 1)


def test_no_epoch_of_the_other_cluster_is_committed() -> None:
    """A client that comes to the cluster itself later would wait for a leader of that epoch."""
    partition = {"partition_index": 1, "committed_offset": 7, "committed_leader_epoch": 57, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    request = {"group_id": "us-g", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": topics}
    told = passed(moved(), ApiKey.OFFSET_COMMIT, 8, request)
    assert told is not None
    assert told["topics"][0]["partitions"][0] == {**partition, "committed_leader_epoch": -1}


@pytest.mark.parametrize("version", [12, 17])
def test_a_new_leader_of_a_topic_that_was_moved_has_an_epoch_of_clients(version: int) -> None:
    leader = {"leader_id": 2, "leader_epoch": 5}
    partition = {"partition_index": 1, "error_code": 6, "current_leader": leader}
    body = {"responses": [{"topic_id": REAL_ID, "topic": "orders", "partitions": [partition]}]}
    frame = b"\0\0\0\7\0" + write_tree(ApiKey.FETCH, version, Direction.RESPONSE, body)
    walker = moved().walker(ApiKey.FETCH, version, len(frame))
    if walker is None:
        (topic,) = answered(moved(), ApiKey.FETCH, version, body)["responses"]
    else:
        told = b"".join(walker.feed(memoryview(bytearray(frame))))
        (topic,) = read_tree(ApiKey.FETCH, version, Direction.RESPONSE, told[5:])["responses"]
    assert topic["partitions"][0]["current_leader"] == {"leader_id": TOLD + 2, "leader_epoch": EPOCHS + 5}


def test_partitions_beyond_the_width_are_left_out_of_answers() -> None:
    partitions = [{"partition_index": each, "partition_size": each} for each in (0, 2, 1, 9)]
    other = {"name": "us.other", "partitions": [{"partition_index": 9}]}
    answer = {"results": [{"log_dir": "/d", "topics": [{"name": "joined-us", "partitions": partitions}, other]}]}
    (directory,) = answered(with_parts(), ApiKey.DESCRIBE_LOG_DIRS, 4, answer)["results"]
    told = {each["name"]: [one["partition_index"] for one in each["partitions"]] for each in directory["topics"]}
    assert told == {"joined": [4, 5], "us.other": [9]}


def test_messages_that_name_a_topic_twice_are_put_together_here() -> None:
    """By its name and by its id: in a message that passes on, the last mention of a topic decides whose partitions
    follow."""
    both = set()
    for api_key, version, side in MESSAGES:
        if any(_names_twice(each) for each in _structs(layout(api_key, version, side))):
            both.add(api_key)
    passing = {
        each
        for each in both
        if UNION_APIS[each].destination
        in (LeafDestination.OWN_NODE, LeafDestination.COORDINATOR, LeafDestination.DEFAULT)
    }
    assert passing == {ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE}, "which the mesh answers"


def _structs(fields: Sequence[Field]) -> Iterator[Sequence[Field]]:
    yield fields
    for field in fields:
        yield from _structs(field.fields)


def _names_twice(fields: Sequence[Field]) -> bool:
    kinds = [field.kind for field in fields if not field.is_array]
    has_partitions = any(field.kind is EntityKind.PARTITION for each in _structs(fields) for field in each)
    return EntityKind.TOPIC in kinds and EntityKind.TOPIC_ID in kinds and has_partitions
