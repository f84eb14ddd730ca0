"""Requests about a concatenated topic, divided by its parts: the merged answers equal those of one cluster that has all
partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.concatenated import Concatenated, Concatenations, Part, PartIds, concatenate, epoch_offset_after
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.kit.union_apis import UNION_APIS, LeafDestination
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.routing.kit.test_split_and_merge import LISTED, SOMETIMES, named, without_text
from tests.routing.kit.world import AP, EU, US, Broker, World, as_sent, requests

JOINED = concatenate("joined", "eu", [(EU, "joined", 3), (US, "joined-us", 4), (AP, "joined-ap", 3)])
"""Of the leaves 0, 1 and 33: partitions 0 to 2, 3 to 6 and 7 to 9."""
OF_US = range(3, 7)
REAL_IDS = {EU: UUID(int=100), US: UUID(int=101), AP: UUID(int=102)}


@dataclass(frozen=True)
class JoinedWorld(World):
    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        part = self.concatenated.part(leaf, topic)
        return super().client_name(leaf, topic) if part is None else part.name


def world(known: Sequence[LeafNumber] = (EU, US, AP)) -> JoinedWorld:
    """known: leaves that have reported the id of their part."""
    ids = PartIds()
    for part in JOINED.parts:
        if part.leaf in known:
            ids.learn(part.leaf, part.topic, REAL_IDS[part.leaf])
    return JoinedWorld(concatenated=Concatenations([JOINED]), part_ids=ids)


WORLD = world()


class JoinedBroker(Broker):
    """A broker of a leaf that answers about a part as one cluster would about the whole."""

    _part: Part | None = None

    def _in_the_world(self, kind: EntityKind | None, value: Any, asked: Any) -> Any:
        if self._leaf is None:
            return value
        parts = self._world.parts_at(self._leaf)
        is_resource = kind is EntityKind.RESOURCE_NAME and asked["resource_type"] == 2
        if kind is EntityKind.TOPIC_ID:
            if value.int:
                self._part = parts.by_leaf_id(value)
                return value if self._part is None else self._part.id
        elif (kind is EntityKind.TOPIC or is_resource) and value is not None:
            self._part = parts.by_leaf_name(value)
            return super()._in_the_world(kind, value, asked) if self._part is None else self._part.name
        elif kind is None and self._part is not None:
            return self._part.to_client_partition(value)
        return super()._in_the_world(kind, value, asked)


def has_partitions(lists: Sequence[EntityList]) -> bool:
    return any(each.keys[0].kind is None or has_partitions(each.inner) for each in lists)


ABOUT_PARTITIONS = [each for each in LISTED if has_partitions(entity_lists(*each))]
OF_ALL_LEAVES = [
    each
    for each in ABOUT_PARTITIONS
    if UNION_APIS[each[0]].destination in (LeafDestination.OWNER, LeafDestination.OFFSETS)
]
OF_ONE_LEAF = [each for each in ABOUT_PARTITIONS if each not in OF_ALL_LEAVES]


def numbered(fields: Sequence[Field], tree: Tree, numbers: Sequence[int]) -> Tree:
    """The answer with these partition numbers in place of 0, 1 and so on; partitions without a number are left out."""

    def element(field: Field, value: Any) -> Any:
        return numbered(field.fields, value, numbers) if field.fields else value

    def is_moved_from(field: Field, value: Any) -> bool:
        own = [value] if field.kind is EntityKind.PARTITION else []
        own += [
            value[each.kafka_name] for each in field.fields if each.kind is EntityKind.PARTITION and not each.is_array
        ]
        return all(each in range(len(numbers)) for each in own)

    result = dict(tree)
    for field in fields:
        value = tree[field.kafka_name]
        if field.is_array and value is not None:
            kept = [element(field, each) for each in value if is_moved_from(field, each)]
            result[field.kafka_name] = [numbers[each] for each in kept] if field.kind is EntityKind.PARTITION else kept
        elif field.kind is EntityKind.PARTITION and value in range(len(numbers)):
            result[field.kafka_name] = numbers[value]
    return result


def through_union(each: tuple[ApiKey, int], request: Tree) -> tuple[Tree, bool]:
    division = split(*each, request, WORLD, US)
    answers = {leaf: JoinedBroker(WORLD, leaf).answer(*each, piece.request) for leaf, piece in division.pieces.items()}
    return as_sent(*each, Direction.RESPONSE, merge(division, answers)), bool(answers)


def with_id(answer: Any) -> Any:
    """The answer with the id of the topic beside its name."""
    match answer:
        case {"topic_name": "joined", "topic_id": _}:
            return answer | {"topic_id": JOINED.id}
        case dict():
            return {name: with_id(each) for name, each in answer.items()}
        case list():
            return [with_id(each) for each in answer]
        case _:
            return answer


def check(each: tuple[ApiKey, int], request: Tree) -> None:
    merged, is_asked = through_union(each, request)
    answer = with_id(as_sent(*each, Direction.RESPONSE, JoinedBroker(WORLD, None).answer(*each, request)))
    if not is_asked:
        names = {entities.answer_field for entities in entity_lists(*each)}
        merged, answer = ({name: tree[name] for name in names} for tree in (merged, answer))
    assert without_text(merged) == without_text(answer)


@pytest.mark.parametrize("each", OF_ALL_LEAVES, ids=named)
@given(data=st.data())
@SOMETIMES
def test_partitions_are_asked_about_where_they_are(each: tuple[ApiKey, int], data: st.DataObject) -> None:
    drawn = data.draw(requests(*each, ["joined", "eu.abc", "us.abc"], [JOINED.id, UUID(int=4), UUID(int=5)]))
    check(
        each, as_sent(*each, Direction.REQUEST, numbered(layout(*each, Direction.REQUEST), drawn, range(JOINED.width)))
    )


@pytest.mark.parametrize("each", OF_ONE_LEAF, ids=named)
@given(data=st.data())
@SOMETIMES
def test_those_of_one_leaf_are_asked_about_there(each: tuple[ApiKey, int], data: st.DataObject) -> None:
    drawn = data.draw(requests(*each, ["joined", "us.abc"], [JOINED.id, UUID(int=5)]))
    request = as_sent(*each, Direction.REQUEST, numbered(layout(*each, Direction.REQUEST), drawn, OF_US))
    names = ("transactional_id", "v3_and_below_transactional_id", "group_id")
    check(each, request | {name: "us.abc" for name in names if name in request})


def produce(*indexes: int) -> Tree:
    partitions = [{"index": each, "records": None} for each in indexes]
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 9,
        "topic_data": [{"name": "joined", "partition_data": partitions}],
    }


def test_others_are_led_elsewhere_or_are_not_there() -> None:
    """Partition 10 is beyond all widths."""
    division = split(
        ApiKey.PRODUCE, 9, as_sent(ApiKey.PRODUCE, 9, Direction.REQUEST, produce(2, 3, 6, 7, 10)), WORLD, US
    )
    (piece,) = division.pieces.values()
    (asked,) = piece.request["topic_data"]
    assert (asked["name"], [each["index"] for each in asked["partition_data"]]) == ("joined-us", [0, 3])
    merged = merge(division, {US: JoinedBroker(WORLD, US).answer(ApiKey.PRODUCE, 9, piece.request)})
    codes = {
        each["index"]: each["error_code"]
        for topic in merged["responses"]
        for each in topic["partition_responses"]
        if each["index"] not in (3, 6)
    }
    assert codes == {2: 6, 7: 6, 10: 3}


def test_what_is_beyond_a_width_is_not_answered() -> None:
    api_key, version = ApiKey.LIST_PARTITION_REASSIGNMENTS, 0
    request = {"timeout_ms": 9, "topics": [{"name": "joined", "partition_indexes": [2, 3, 8]}]}
    division = split(api_key, version, request, WORLD, None)
    assert {leaf: piece.request["topics"][0]["partition_indexes"] for leaf, piece in division.pieces.items()} == {
        EU: [2],
        US: [0],
        AP: [1],
    }
    partition = {"replicas": [1], "adding_replicas": [], "removing_replicas": []}
    told: Tree = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "topics": [{"name": "joined", "partitions": [{"partition_index": each, **partition} for each in (2, 3)]}],
    }
    merged = merge(division, {EU: told, US: told | {"topics": []}, AP: told | {"topics": []}})
    (topic,) = merged["topics"]
    assert [each["partition_index"] for each in topic["partitions"]] == [2], "3 is beyond the width of eu"


def test_offsets_of_all_topics_are_one_topic() -> None:
    request: Tree = {"groups": [{"group_id": "g", "topics": None}], "require_stable": False}
    division = split(ApiKey.OFFSET_FETCH, 8, request, WORLD, None)

    def said(name: str, *partitions: int) -> Tree:
        partition = {"committed_offset": 5, "committed_leader_epoch": -1, "metadata": "", "error_code": 0}
        told = [{"partition_index": each, **partition} for each in partitions]
        group = {"group_id": "g", "topics": [{"name": name, "partitions": told}], "error_code": 0}
        return {"throttle_time_ms": 0, "groups": [group]}

    answers = {EU: said("joined", 0, 2, 3), US: said("joined-us", 1), AP: said("joined-ap", 0)}
    (group,) = merge(division, dict(answers))["groups"]
    (topic,) = group["topics"]
    assert topic["name"] == "joined"
    assert [each["partition_index"] for each in topic["partitions"]] == [0, 2, 4, 7]


def test_a_part_whose_id_is_not_known_has_no_topic_with_an_id() -> None:
    partitions = [{"partition_index": each, "committed_offset": 1, "committed_leader_epoch": -1} for each in (0, 5)]
    request: Tree = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"topic_id": JOINED.id, "partitions": partitions}],
    }
    division = split(ApiKey.OFFSET_COMMIT, 10, request, world([EU]), None)
    assert {leaf: piece.request["topics"][0]["topic_id"] for leaf, piece in division.pieces.items()} == {
        EU: REAL_IDS[EU]
    }
    assert division.local_answer is not None
    (topic,) = division.local_answer["topics"]
    assert [(each["partition_index"], each["error_code"]) for each in topic["partitions"]] == [(5, 100)]


def created(**fields: Any) -> Tree:
    topic = {"name": "joined", "num_partitions": -1, "replication_factor": 1, "assignments": [], "configs": []}
    return {"topics": [topic | fields], "timeout_ms": 9, "validate_only": False}


@pytest.mark.parametrize("count", [-1, 10])
def test_all_parts_are_created_with_their_widths(count: int) -> None:
    division = split(ApiKey.CREATE_TOPICS, 7, created(num_partitions=count), WORLD, None)
    asked = {leaf: piece.request["topics"] for leaf, piece in division.pieces.items()}
    assert {leaf: [(each["name"], each["num_partitions"]) for each in topics] for leaf, topics in asked.items()} == {
        EU: [("joined", 3)],
        US: [("joined-us", 4)],
        AP: [("joined-ap", 3)],
    }
    answers: dict[LeafNumber, Tree | int] = {
        leaf: {
            "throttle_time_ms": 0,
            "topics": [
                {
                    "name": topics[0]["name"],
                    "topic_id": REAL_IDS[leaf],
                    "error_code": 0,
                    "error_message": None,
                    "num_partitions": topics[0]["num_partitions"],
                    "replication_factor": 1,
                    "configs": [],
                }
            ],
        }
        for leaf, topics in asked.items()
    }
    (topic,) = merge(division, answers)["topics"]
    assert (topic["name"], topic["topic_id"], topic["num_partitions"]) == ("joined", JOINED.id, 10)
    (topic,) = merge(division, {**answers, US: 7})["topics"]
    assert topic["error_code"] == 7


@pytest.mark.parametrize(
    ("api_key", "version", "request_", "code"),
    [
        (ApiKey.CREATE_TOPICS, 7, created(num_partitions=9), 37),
        (ApiKey.CREATE_TOPICS, 7, created(assignments=[{"partition_index": 0, "broker_ids": [1]}]), 39),
        (
            ApiKey.CREATE_PARTITIONS,
            3,
            {"topics": [{"name": "joined", "count": 12, "assignments": None}], "timeout_ms": 9, "validate_only": False},
            44,
        ),
    ],
)
def test_what_would_be_another_topic_is_refused(api_key: ApiKey, version: int, request_: Tree, code: int) -> None:
    division = split(api_key, version, request_, WORLD, None)
    assert not division.pieces
    (said,) = merge(division, {})["topics" if api_key is ApiKey.CREATE_TOPICS else "results"]
    assert said["error_code"] == code
    assert "joined" in said["error_message"]


def test_configurations_are_read_of_the_first_part_and_changed_in_all() -> None:
    resource = {"resource_type": 2, "resource_name": "joined"}
    read = split(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource | {"configuration_keys": None}]}, WORLD, None)
    assert [*read.pieces] == [EU]
    change = {"resources": [resource | {"configs": []}], "validate_only": False}
    changed = split(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, change, WORLD, None)
    assert {leaf: piece.request["resources"][0]["resource_name"] for leaf, piece in changed.pieces.items()} == {
        EU: "joined",
        US: "joined-us",
        AP: "joined-ap",
    }
    said = {"error_code": 0, "error_message": None, "resource_type": 2}
    answers: dict[LeafNumber, Tree | int] = {
        part.leaf: {"throttle_time_ms": 0, "responses": [said | {"resource_name": part.topic}]} for part in JOINED.parts
    }
    (told,) = merge(changed, answers)["responses"]
    assert (told["resource_name"], told["error_code"]) == ("joined", 0)
    (told,) = merge(changed, {**answers, AP: 7})["responses"]
    assert (told["resource_name"], told["error_code"]) == ("joined", 7)


def test_replicas_are_moved_within_their_leaf() -> None:
    topic = {"name": "joined", "partitions": [2, 3, 6]}
    division = split(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, {"dirs": [{"path": "/d", "topics": [topic]}]}, WORLD, US)
    (piece,) = division.pieces.values()
    assert piece.request["dirs"][0]["topics"] == [{"name": "joined-us", "partitions": [0, 3]}]
    assert division.local_answer == {
        "results": [{"topic_name": "joined", "partitions": [{"partition_index": 2, "error_code": 9}]}]
    }


def test_no_topology_of_kafka_streams_reads_it() -> None:
    """Its transactions end in one cluster."""
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["joined"]}]}
    request = {"group_id": "eu.g", "member_id": "m", "member_epoch": 0, "topology": topology}
    whole = as_sent(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, Direction.REQUEST, request)
    division = split(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, whole, WORLD, None)
    assert division.local_answer is not None
    assert division.local_answer["error_code"] == 130


def test_a_transaction_takes_none_of_a_request_with_partitions_of_another_leaf() -> None:
    api_key, version = ApiKey.ADD_PARTITIONS_TO_TXN, 3
    request: Tree = {
        "v3_and_below_transactional_id": "us.t",
        "v3_and_below_producer_id": 1,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "joined", "partitions": [2, 3]}],
    }
    division = split(api_key, version, request, WORLD, US)
    assert not division.pieces
    merged = merge(division, {})
    codes = {
        each["partition_index"]: each["partition_error_code"]
        for topic in merged["results_by_topic_v3_and_below"]
        for each in topic["results_by_partition"]
    }
    assert codes == {2: 29, 3: 55}


@pytest.mark.parametrize(
    ("api_key", "version", "request_"),
    [
        (ApiKey.DELETE_TOPICS, 5, {"topic_names": ["joined"], "timeout_ms": 9}),
        (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": JOINED.id}], "timeout_ms": 9}),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": "g", "topics": [{"topic_name": "joined"}]}),
    ],
)
def test_what_is_about_all_of_it_is_asked_of_every_part(api_key: ApiKey, version: int, request_: Tree) -> None:
    division = split(api_key, version, as_sent(api_key, version, Direction.REQUEST, request_), WORLD, None)
    assert [*division.pieces] == [EU, US, AP]
    for leaf, piece in division.pieces.items():
        part = JOINED.part_at_leaf(leaf)
        assert part is not None
        told = repr(as_sent(api_key, version, Direction.REQUEST, piece.request))
        assert part.topic in told or repr(REAL_IDS[leaf]) in told


def test_one_answer_is_given_for_all_parts_with_the_error_of_any() -> None:
    request = {"topics": [{"name": "joined", "topic_id": UUID(int=0)}], "timeout_ms": 9}
    division = split(ApiKey.DELETE_TOPICS, 6, request, WORLD, None)

    def said(part: Part, code: int) -> Tree:
        told = {"name": part.topic, "topic_id": REAL_IDS[part.leaf], "error_code": code, "error_message": None}
        return {"throttle_time_ms": 0, "responses": [told]}

    for codes, expected in (((0, 0, 0), 0), ((0, 3, 0), 3), ((3, 29, 0), 3)):
        answers = {part.leaf: said(part, code) for part, code in zip(JOINED.parts, codes, strict=True)}
        (told,) = merge(division, dict(answers))["responses"]
        assert (told["name"], told["topic_id"], told["error_code"]) == ("joined", JOINED.id, expected)


def test_epochs_of_a_topic_that_was_moved_in_a_request_that_is_divided() -> None:
    part = Part("moved", UUID(int=7), US, "moved", 0, 2, epoch_offset_after(1))
    moved = Concatenated("moved", part.id, (part,), has_moved=True)
    union = JoinedWorld(concatenated=Concatenations([moved]), part_ids=PartIds())
    asked = {"partition": 1, "current_leader_epoch": part.epoch_offset + 3, "leader_epoch": 57}
    topics = [{"topic": name, "partitions": [asked]} for name in ("moved", "us.abc", "eu.abc")]
    division = split(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": topics}, union, US)
    (piece,) = division.pieces.values()
    told = {topic["topic"]: topic["partitions"][0] for topic in piece.request["topics"]}
    assert told == {"moved": {**asked, "current_leader_epoch": 3, "leader_epoch": -1}, "abc": asked}
    none = {"partition": 1, "error_code": 0, "leader_epoch": -1, "end_offset": -1}
    answers = {US: {"topics": [{"topic": topic["topic"], "partitions": [none]} for topic in piece.request["topics"]]}}
    merged = {topic["topic"]: topic["partitions"][0] for topic in merge(division, answers)["topics"]}
    assert merged["moved"] == {**none, "leader_epoch": 0, "end_offset": (1 << 63) - 1}
    assert merged["us.abc"] == none
    assert merged["eu.abc"]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
