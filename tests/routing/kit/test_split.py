"""The request to each cluster of a union, and the requests that no cluster gets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from mesh.routing.kit.division import Division
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree
from tests.routing.kit.world import AP, EU, US, WORLD, as_sent

ZERO = UUID(int=0)


def divided(api_key: ApiKey, version: int, own: LeafNumber | None = EU, **request: Any) -> Division:
    return split(api_key, version, as_sent(api_key, version, Direction.REQUEST, request), WORLD, own)


def asked(division: Division) -> dict[LeafNumber, Tree]:
    return {leaf: piece.request for leaf, piece in division.pieces.items()}


def error_of(division: Division) -> tuple[int, str | None]:
    assert not division.pieces and division.local_answer is not None
    return division.local_answer["error_code"], division.local_answer["error_message"]


def test_topics_are_created_at_their_owners_under_their_names_there() -> None:
    topics = [{"name": name, "num_partitions": 3} for name in ("us.orders", "eu.orders", "no.orders")]
    division = divided(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=7, validate_only=True)
    requests = asked(division)
    assert {leaf: [each["name"] for each in request["topics"]] for leaf, request in requests.items()} == {
        EU: ["eu.orders"],
        US: ["orders"],
    }
    assert all(request["timeout_ms"] == 7 and request["validate_only"] for request in requests.values())
    assert division.local_answer is not None
    (refused,) = division.local_answer["topics"]
    assert (refused["name"], refused["error_code"]) == ("no.orders", 44)


def test_nodes_of_the_owner_are_called_as_there_and_a_topic_cannot_be_on_others() -> None:
    topics = [
        {"name": "us.a", "assignments": [{"partition_index": 0, "broker_ids": [US << 20 | 3, US << 20 | 1]}]},
        {"name": "us.b", "assignments": [{"partition_index": 0, "broker_ids": [US << 20 | 3, 1]}]},
    ]
    division = divided(ApiKey.CREATE_TOPICS, 5, topics=topics)
    (topic,) = asked(division)[US]["topics"]
    assert topic["assignments"] == [{"partition_index": 0, "broker_ids": [3, 1]}]
    assert division.local_answer is not None
    (refused,) = division.local_answer["topics"]
    assert (refused["name"], refused["error_code"]) == ("us.b", 39)


def test_a_reassignment_to_other_nodes_is_refused_by_partition() -> None:
    partitions = [
        {"partition_index": index, "replicas": replicas} for index, replicas in ((0, [7]), (1, None), (2, [US << 20]))
    ]
    division = divided(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=[{"name": "eu.a", "partitions": partitions}])
    (topic,) = asked(division)[EU]["topics"]
    assert topic["partitions"] == partitions[:2]
    assert division.local_answer is not None
    (refused,) = division.local_answer["responses"]
    assert [(each["partition_index"], each["error_code"]) for each in refused["partitions"]] == [(2, 39)]


def test_topics_are_deleted_by_name_and_by_id() -> None:
    topics = [
        {"name": "us.a", "topic_id": ZERO},
        {"name": None, "topic_id": UUID(int=6)},
        {"name": None, "topic_id": UUID(int=7)},
        {"name": None, "topic_id": ZERO},
    ]
    division = divided(ApiKey.DELETE_TOPICS, 6, topics=topics)
    assert {leaf: request["topics"] for leaf, request in asked(division).items()} == {
        US: [{"name": "a", "topic_id": ZERO}],
        AP: [{"name": None, "topic_id": UUID(int=6)}],
    }
    assert division.local_answer is not None
    assert [each["error_code"] for each in division.local_answer["responses"]] == [100, 42]


def test_an_id_that_is_not_known_is_asked_of_the_home() -> None:
    topics = [{"topic_id": UUID(int=7), "partitions": [{"partition_index": 0}]}]
    division = divided(ApiKey.OFFSET_COMMIT, 10, group_id="us.group", topics=topics)
    assert asked(division)[US]["topics"][0]["topic_id"] == UUID(int=7)


def test_resources_go_to_their_owners() -> None:
    resources = [
        (2, "us.a"),
        (2, "no.a"),
        (4, str(US << 20 | 5)),
        (4, ""),
        (8, "7"),
        (32, "ap.group"),
        (16, "metrics"),
        (99, "x"),
    ]
    given = [{"resource_type": each, "resource_name": name, "configs": []} for each, name in resources]
    unknown_node = {"resource_type": 4, "resource_name": str(9 << 20), "configs": []}
    division = divided(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[*given, unknown_node])
    found = {
        leaf: [(each["resource_type"], each["resource_name"]) for each in request["resources"]]
        for leaf, request in asked(division).items()
    }
    assert found == {
        EU: [(4, ""), (8, "7"), (16, "metrics"), (99, "x")],
        US: [(2, "a"), (4, "5")],
        AP: [(32, "ap.group")],
    }
    assert division.local_answer is not None
    assert [each["error_code"] for each in division.local_answer["responses"]] == [3, 42]


def test_keys_of_coordinators_go_to_their_homes() -> None:
    division = divided(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["us.tx", "eu.tx", "us.other"])
    assert {leaf: request["coordinator_keys"] for leaf, request in asked(division).items()} == {
        EU: ["eu.tx"],
        US: ["us.tx", "us.other"],
    }
    assert list(asked(divided(ApiKey.FIND_COORDINATOR, 0, key="ap.group"))) == [AP]
    assert list(asked(divided(ApiKey.FIND_COORDINATOR, 1, key="ap.tx", key_type=1))) == [AP]


def test_coordinators_of_share_state_are_not_looked_for() -> None:
    division = divided(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=["us.group:id:0"])
    assert not division.pieces and division.local_answer is not None
    assert [each["error_code"] for each in division.local_answer["coordinators"]] == [42]


@pytest.mark.parametrize(
    ("api_key", "request_", "home"),
    [
        (ApiKey.INIT_PRODUCER_ID, {"transactional_id": None}, EU),
        (ApiKey.INIT_PRODUCER_ID, {"transactional_id": "us.tx"}, US),
        (ApiKey.END_TXN, {"transactional_id": "ap.tx"}, AP),
        (ApiKey.ADD_OFFSETS_TO_TXN, {"transactional_id": "ap.tx", "group_id": "ap.group"}, AP),
        (ApiKey.JOIN_GROUP, {"group_id": "us.group"}, US),
        (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, {"group_id": "us.group"}, US),
        (ApiKey.LIST_GROUPS, {}, AP),
        (ApiKey.PUSH_TELEMETRY, {}, AP),
    ],
)
def test_homes(api_key: ApiKey, request_: Tree, home: LeafNumber) -> None:
    assert list(asked(divided(api_key, 0, AP, **request_))) == [home]


def test_the_topic_of_the_quorum_is_none_of_the_unions() -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    assert asked(divided(ApiKey.DESCRIBE_QUORUM, 0, AP, topics=topics)) == {EU: {"topics": topics}}


@pytest.mark.parametrize(("version", "code"), [(3, 30), (4, 120)])
def test_a_group_must_be_where_its_transaction_is(version: int, code: int) -> None:
    request: Any = {"transactional_id": "eu.tx", "group_id": "us.group"}
    division = divided(ApiKey.ADD_OFFSETS_TO_TXN, version, **request)
    assert not division.pieces and division.local_answer is not None
    assert division.local_answer["error_code"] == code
    topics = [{"name": "eu.a", "partitions": [{"partition_index": 0}]}]
    division = divided(ApiKey.TXN_OFFSET_COMMIT, version, **request, topics=topics)
    assert not division.pieces and division.local_answer is not None
    assert division.local_answer["topics"][0]["partitions"][0]["error_code"] == code


def test_partitions_are_all_added_to_a_transaction_or_none_is() -> None:
    topics = [{"name": "eu.a", "partitions": [0, 1]}, {"name": "us.a", "partitions": [2]}]
    request: Any = {"v3_and_below_transactional_id": "eu.tx", "v3_and_below_topics": topics}
    division = divided(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **request)
    assert not division.pieces and division.local_answer is not None
    codes = {
        (topic["name"], each["partition_index"]): each["partition_error_code"]
        for topic in division.local_answer["results_by_topic_v3_and_below"]
        for each in topic["results_by_partition"]
    }
    assert codes == {("eu.a", 0): 55, ("eu.a", 1): 55, ("us.a", 2): 29}


@pytest.mark.parametrize(
    ("api_key", "request_", "code"),
    [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, {"subscribed_topic_names": ["eu.a", "us.a"]}, 29),
        (ApiKey.SHARE_GROUP_HEARTBEAT, {"subscribed_topic_names": ["us.a"]}, 29),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, {"topology": {"subtopologies": [{"source_topics": ["us.a"]}]}}, 130),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, {"topology": {"subtopologies": [{"repartition_sink_topics": ["no.a"]}]}}, 130),
    ],
)
def test_a_heartbeat_that_names_topics_of_another_cluster_is_refused(
    api_key: ApiKey, request_: Tree, code: int
) -> None:
    found, message = error_of(divided(api_key, 1, group_id="eu.group", **request_))
    assert found == code
    assert message is not None
    assert "topic us.a is in another cluster" in message or "has a place for topic no.a" in message


def test_a_heartbeat_in_the_names_of_the_home() -> None:
    names = ["us.a", "no.a", "us.b"]
    division = divided(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="us.group", subscribed_topic_names=names)
    assert asked(division)[US]["subscribed_topic_names"] == ["a", "b"]
    unchanged = divided(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="us.group", subscribed_topic_names=None)
    assert asked(unchanged)[US]["subscribed_topic_names"] is None


def test_a_pattern_is_for_a_cluster_that_has_the_same_names() -> None:
    pattern: Any = {"subscribed_topic_regex": "a.*"}
    at_home = divided(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="eu.group", **pattern)
    assert asked(at_home)[EU]["subscribed_topic_regex"] == "a.*"
    code, _ = error_of(divided(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="us.group", **pattern))
    assert code == 128
    topology = {"subtopologies": [{"source_topic_regex": ["a.*"]}]}
    code, _ = error_of(divided(ApiKey.STREAMS_GROUP_HEARTBEAT, 1, group_id="us.group", topology=topology))
    assert code == 130


def test_a_fetch_goes_on_also_when_nothing_in_it_is_here() -> None:
    topics = [{"topic": "us.a", "partitions": [{"partition": 0}]}]
    forgotten = [{"topic": "us.b", "partitions": [0]}, {"topic": "eu.b", "partitions": [1]}]
    request: Any = {"session_id": 5, "topics": topics, "forgotten_topics_data": forgotten, "cluster_id": "union"}
    division = divided(ApiKey.FETCH, 12, EU, **request)
    assert asked(division)[EU]["topics"] == []
    assert asked(division)[EU]["forgotten_topics_data"] == [{"topic": "eu.b", "partitions": [1]}]
    assert asked(division)[EU]["cluster_id"] is None
    produced = divided(ApiKey.PRODUCE, 12, EU, acks=1, topic_data=[{"name": "us.a", "partition_data": [{"index": 0}]}])
    assert not produced.pieces and produced.local_answer is not None
    assert produced.local_answer["responses"][0]["partition_responses"][0]["error_code"] == 6


def test_offsets_are_asked_of_the_owners_of_their_topics() -> None:
    groups = [
        {
            "group_id": "us.group",
            "topics": [
                {"name": "eu.a", "partition_indexes": [1]},
                {"name": "us.a", "partition_indexes": [2, 3]},
                {"name": "no.a", "partition_indexes": [4]},
            ],
        },
        {"group_id": "ap.group", "topics": None},
        {"group_id": "eu.group", "topics": []},
    ]
    division = divided(ApiKey.OFFSET_FETCH, 8, groups=groups)
    everything = {"group_id": "ap.group", "topics": None}
    told = {
        leaf: [{"group_id": each["group_id"], "topics": each["topics"]} for each in request["groups"]]
        for leaf, request in asked(division).items()
    }
    assert told == {
        EU: [
            {"group_id": "us.group", "topics": [{"name": "eu.a", "partition_indexes": [1]}]},
            everything,
            {"group_id": "eu.group", "topics": []},
        ],
        US: [{"group_id": "us.group", "topics": [{"name": "a", "partition_indexes": [2, 3]}]}, everything],
        AP: [everything],
    }
    assert division.local_answer is not None
    (group,) = division.local_answer["groups"]
    assert group["topics"][0]["partitions"][0] == {
        "partition_index": 4,
        "error_code": 0,
        "error_message": None,
        "committed_offset": -1,
    }


def test_a_commit_goes_to_the_owners_and_one_of_nothing_to_the_home() -> None:
    topics = [
        {"name": "eu.a", "partitions": [{"partition_index": 1}]},
        {"name": "us.a", "partitions": [{"partition_index": 2}]},
    ]
    for api_key, version in ((ApiKey.OFFSET_COMMIT, 9), (ApiKey.OFFSET_DELETE, 0)):
        division = divided(api_key, version, group_id="ap.group", topics=topics)
        assert {leaf: [each["name"] for each in request["topics"]] for leaf, request in asked(division).items()} == {
            EU: ["eu.a"],
            US: ["a"],
        }
    assert list(asked(divided(ApiKey.OFFSET_COMMIT, 9, group_id="ap.group", topics=[]))) == [AP]


def test_what_is_not_told_apart_goes_to_all() -> None:
    for api_key, request in (
        (ApiKey.ELECT_LEADERS, {"topic_partitions": None}),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}),
        (ApiKey.LIST_CONFIG_RESOURCES, {}),
        (ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": 1}),
    ):
        assert list(asked(divided(api_key, 0, **request))) == [EU, US, AP]
    assert list(asked(divided(ApiKey.DESCRIBE_CLUSTER, 1, US, endpoint_type=2))) == [EU]


def test_replicas_are_moved_at_their_own_node() -> None:
    dirs = [{"path": "/one", "topics": [{"name": "us.a", "partitions": [1]}, {"name": "eu.a", "partitions": [2]}]}]
    division = divided(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, US, dirs=dirs)
    assert asked(division)[US]["dirs"] == [{"path": "/one", "topics": [{"name": "a", "partitions": [1]}]}]
    assert division.local_answer is not None
    assert division.local_answer["results"] == [
        {"topic_name": "eu.a", "partitions": [{"partition_index": 2, "error_code": 9}]}
    ]


def test_at_the_address_for_all_the_default_leaf_is_asked() -> None:
    assert list(asked(divided(ApiKey.LIST_GROUPS, 0, None))) == [EU]


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.CREATE_ACLS])
def test_what_is_not_taken_apart_is_an_error(api_key: ApiKey) -> None:
    with pytest.raises(ValueError, match="is not taken apart"):
        split(api_key, 1, {}, WORLD, EU)
