"""Answers of several clusters, merged into one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from mesh.routing.kit.division import Division
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree
from tests.routing.kit.world import AP, EU, US, WORLD, World, as_sent


def merged(
    api_key: ApiKey,
    version: int,
    request: Tree,
    answers: Mapping[LeafNumber, Tree | int],
    own: LeafNumber = EU,
    world: World = WORLD,
) -> Tree:
    """answers: those of the requested leaves."""
    division = split(api_key, version, as_sent(api_key, version, Direction.REQUEST, request), world, own)
    sent = {
        leaf: answer if isinstance(answer, int) else as_sent(api_key, version, Direction.RESPONSE, answer)
        for leaf, answer in answers.items()
    }
    assert set(sent) <= set(division.pieces)
    return as_sent(api_key, version, Direction.RESPONSE, merge(division, sent))


def by(answer: Tree, array: str, *names: str) -> list[Any]:
    return [tuple(each[name] for name in names) for each in answer[array]]


def test_the_longest_throttling_holds() -> None:
    answers: dict[LeafNumber, Tree | int] = {EU: {"throttle_time_ms": 3}, US: {"throttle_time_ms": 8}, AP: {}}
    assert merged(ApiKey.LIST_CONFIG_RESOURCES, 1, {}, answers)["throttle_time_ms"] == 8


def test_a_cluster_that_is_down_fails_what_it_was_asked_about() -> None:
    request = {"topics": [{"name": name} for name in ("us.a", "eu.a", "no.a", "us.b")]}
    answers: dict[LeafNumber, Tree | int] = {EU: {"topics": [{"name": "eu.a"}]}}
    answer = merged(ApiKey.CREATE_TOPICS, 5, request, answers)
    assert by(answer, "topics", "name", "error_code") == [("us.a", 7), ("eu.a", 0), ("no.a", 44), ("us.b", 7)]


def test_it_may_be_said_with_which_error() -> None:
    answer = merged(
        ApiKey.DELETE_GROUPS, 2, {"groups_names": ["eu.g", "us.g"]}, {EU: 16, US: {"results": [{"group_id": "us.g"}]}}
    )
    assert by(answer, "results", "group_id", "error_code") == [("eu.g", 16), ("us.g", 0)]


def test_offsets_of_a_cluster_that_is_down_are_loaded_still_at_every_level() -> None:
    topics = [{"name": "us.a", "partition_indexes": [4]}]
    groups = [{"group_id": "us.g", "topics": topics}, {"group_id": "eu.g", "topics": None}]
    found = [{"group_id": "eu.g", "topics": [{"name": "eu.a", "partitions": [{"committed_offset": 7}]}]}]
    answer = merged(ApiKey.OFFSET_FETCH, 8, {"groups": groups}, {EU: {"groups": found}})
    down, up = answer["groups"]
    (topic,) = down["topics"]
    assert (down["group_id"], down["error_code"], topic["name"]) == ("us.g", 14, "us.a")
    assert by(topic, "partitions", "partition_index", "committed_offset", "error_code") == [(4, -1, 14)]
    assert (up["error_code"], up["topics"][0]["partitions"][0]["committed_offset"]) == (0, 7)
    answer = merged(ApiKey.OFFSET_FETCH, 7, {"group_id": "us.g", "topics": topics}, {})
    assert (answer["error_code"], answer["topics"][0]["partitions"][0]["error_code"]) == (14, 14)


def test_a_coordinator_that_is_down_is_not_available() -> None:
    request = {"key_type": 0, "coordinator_keys": ["us.g", "eu.g"]}
    found = {"coordinators": [{"key": "eu.g", "node_id": 3, "host": "h", "port": 9092}]}
    answer = merged(ApiKey.FIND_COORDINATOR, 4, request, {EU: found})
    assert by(answer, "coordinators", "key", "node_id", "error_code") == [("us.g", -1, 15), ("eu.g", 3, 0)]
    answer = merged(ApiKey.FIND_COORDINATOR, 2, {"key": "ap.g"}, {AP: {"node_id": 2, "host": "h", "port": 1}})
    assert (answer["node_id"], answer["host"]) == (AP << 20 | 2, "h")
    assert merged(ApiKey.FIND_COORDINATOR, 2, {"key": "ap.g"}, {})["error_code"] == 15


def test_an_error_above_all_is_said_of_each_when_others_went_well() -> None:
    request = {
        "election_type": 0,
        "topic_partitions": [{"topic": each, "partitions": [0]} for each in ("us.a", "eu.a")],
    }
    well = {
        "replica_election_results": [{"topic": "eu.a", "partition_result": [{"partition_id": 0, "error_code": 84}]}]
    }
    answer = merged(
        ApiKey.ELECT_LEADERS, 2, request, {EU: well, US: {"error_code": 31, "replica_election_results": []}}
    )
    assert answer["error_code"] == 0
    assert [
        (each["topic"], each["partition_result"][0]["error_code"]) for each in answer["replica_election_results"]
    ] == [("us.a", 31), ("eu.a", 84)]
    both = merged(ApiKey.ELECT_LEADERS, 2, request, {EU: {"error_code": 41}, US: {"error_code": 31}})
    assert both["error_code"] == 41
    asked_for_all = {"election_type": 0, "topic_partitions": None}
    answer = merged(ApiKey.ELECT_LEADERS, 2, asked_for_all, {EU: well, US: {"error_code": 31}, AP: {}})
    assert answer["error_code"] == 31


def test_the_only_clusters_error_is_the_answers() -> None:
    request = {"group_id": "us.g", "topics": [{"name": "us.a", "partitions": [{"partition_index": 0}]}]}
    answer = merged(ApiKey.OFFSET_DELETE, 0, request, {US: {"error_code": 69}})
    assert answer == {"error_code": 69, "throttle_time_ms": 0, "topics": []}


def test_reassignments_of_all_are_told_only_if_all_tell_them() -> None:
    partition = {"partition_index": 0, "replicas": [1, 2], "adding_replicas": [2], "removing_replicas": []}
    answers: dict[LeafNumber, Tree | int] = {
        EU: {"topics": []},
        US: {"topics": [{"name": "a", "partitions": [partition]}]},
        AP: {"topics": [{"name": "x.pa", "partitions": []}]},
    }
    answer = merged(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}, answers)
    assert by(answer, "topics", "name") == [("us.a",), ("ap.x",)]
    assert answer["topics"][0]["partitions"][0]["replicas"] == [US << 20 | 1, US << 20 | 2]
    answers[AP] = 7
    assert merged(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}, answers)["error_code"] == 7


def test_the_nodes_of_all_clusters_are_those_of_one() -> None:
    def cluster(*nodes: int) -> Tree:
        brokers = [{"broker_id": node, "host": f"host{node}", "port": 9092} for node in nodes]
        return {
            "cluster_id": "upstream",
            "controller_id": nodes[0],
            "brokers": brokers,
            "cluster_authorized_operations": nodes[0],
        }

    answer = merged(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1}, {EU: cluster(2, 1), US: cluster(1), AP: 7})
    assert answer["error_code"] == 0
    assert (answer["cluster_id"], answer["controller_id"], answer["cluster_authorized_operations"]) == ("union", 2, 2)
    assert by(answer, "brokers", "broker_id", "host") == [(2, "host2"), (1, "host1"), (US << 20 | 1, "host1")]
    answers = {EU: cluster(2), US: cluster(1), AP: cluster(3)}
    default_behind = merged(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1}, answers, world=World(default=US))
    assert (default_behind["controller_id"], default_behind["cluster_authorized_operations"]) == (US << 20 | 1, 1)
    without_default = merged(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1}, {US: cluster(5), AP: cluster(1)})
    assert without_default["controller_id"] == US << 20 | 5
    assert merged(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1}, {})["error_code"] == 7


def test_resources_are_listed_where_clients_find_them() -> None:
    def listed(*resources: tuple[int, str]) -> Tree:
        return {"config_resources": [{"resource_type": each, "resource_name": name} for each, name in resources]}

    answers: dict[LeafNumber, Tree | int] = {
        EU: listed((2, "eu.a"), (2, "other"), (4, "1"), (16, "mine"), (32, "eu.g"), (32, "us.g")),
        US: listed((2, "a"), (4, "1"), (8, "1"), (16, "theirs"), (32, "us.g")),
        AP: listed(),
    }
    answer = merged(ApiKey.LIST_CONFIG_RESOURCES, 1, {}, answers)
    assert by(answer, "config_resources", "resource_type", "resource_name") == [
        *((2, "eu.a"), (4, "1"), (16, "mine"), (32, "eu.g")),
        *((2, "us.a"), (4, str(US << 20 | 1)), (8, str(US << 20 | 1)), (32, "us.g")),
    ]
    answer = merged(ApiKey.LIST_CONFIG_RESOURCES, 0, {}, answers)
    assert {name for (name,) in by(answer, "config_resources", "resource_name")} == {
        *("eu.a", "other", "1", "mine", "eu.g", "us.g")
    }


def test_a_broker_as_a_resource_is_a_node_of_clients() -> None:
    name = str(US << 20 | 5)
    request = {"resources": [{"resource_type": 4, "resource_name": each} for each in (name, "")]}
    answers: dict[LeafNumber, Tree | int] = {
        US: {"results": [{"resource_type": 4, "resource_name": "5"}]},
        EU: {"results": [{"resource_type": 4, "resource_name": ""}]},
    }
    answer = merged(ApiKey.DESCRIBE_CONFIGS, 4, request, answers)
    assert by(answer, "results", "resource_name") == [(name,), ("",)]


def test_groups_and_transactions_are_listed_by_their_homes_only() -> None:
    groups = {"groups": [{"group_id": each} for each in ("eu.g", "us.g")]}
    assert by(merged(ApiKey.LIST_GROUPS, 4, {}, {US: groups}, US), "groups", "group_id") == [("us.g",)]
    states = {"transaction_states": [{"transactional_id": each} for each in ("eu.t", "us.t")]}
    answer = merged(ApiKey.LIST_TRANSACTIONS, 1, {}, {US: states}, US)
    assert by(answer, "transaction_states", "transactional_id") == [("us.t",)]


def test_what_is_hidden_is_left_out_of_what_groups_have() -> None:
    def assigned(*names: str) -> Tree:
        return {"topic_partitions": [{"topic_name": name, "partitions": [0]} for name in names]}

    member = {"subscribed_topic_names": ["a", "secret"], "assignment": assigned("secret", "a")}
    found = {"groups": [{"group_id": "us.g", "members": [member]}]}
    world = World(hidden=["us.secret"])
    answer = merged(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["us.g"]}, {US: found}, world=world)
    (told,) = answer["groups"][0]["members"]
    assert told["subscribed_topic_names"] == ["us.a"]
    assert by(told["assignment"], "topic_partitions", "topic_name") == [("us.a",)]


def test_a_topic_deleted_by_its_id_is_told_by_its_name() -> None:
    topic_id = UUID(int=5)
    found = {"responses": [{"name": "a", "topic_id": topic_id}]}
    request = {"topics": [{"name": None, "topic_id": UUID(int=4)}, {"name": None, "topic_id": topic_id}]}
    answer = merged(
        ApiKey.DELETE_TOPICS,
        6,
        request,
        {US: found, EU: {"responses": [{"name": None, "topic_id": UUID(int=4), "error_code": 100}]}},
    )
    assert by(answer, "responses", "name", "topic_id", "error_code") == [
        (None, UUID(int=4), 100),
        ("us.a", topic_id, 0),
    ]


def test_the_leader_of_the_quorum_is_a_node_and_its_topic_keeps_its_name() -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    voters = [{"replica_id": 2}]
    found = {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"leader_id": 2, "current_voters": voters}]}]
    }
    answer = merged(ApiKey.DESCRIBE_QUORUM, 0, {"topics": topics}, {AP: found}, world=World(default=AP))
    (topic,) = answer["topics"]
    assert topic["topic_name"] == "__cluster_metadata"
    (partition,) = topic["partitions"]
    assert partition["leader_id"] == partition["current_voters"][0]["replica_id"] == AP << 20 | 2


def test_replicas_that_were_moved_and_those_elsewhere() -> None:
    dirs = [{"path": "/one", "topics": [{"name": "eu.a", "partitions": [1]}, {"name": "us.a", "partitions": [2]}]}]
    found = {"results": [{"topic_name": "a", "partitions": [{"partition_index": 2, "error_code": 0}]}]}
    answer = merged(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, {"dirs": dirs}, {US: found}, US)
    assert [(each["topic_name"], each["partitions"][0]["error_code"]) for each in answer["results"]] == [
        ("us.a", 0),
        ("eu.a", 9),
    ]


@pytest.mark.parametrize("api_key", [ApiKey.HEARTBEAT, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID, ApiKey.JOIN_GROUP])
def test_a_home_that_is_down(api_key: ApiKey) -> None:
    request = {"group_id": "us.g", "transactional_id": "us.t"}
    assert merged(api_key, 4, request, {})["error_code"] == 15


def test_nothing_asked_is_nothing_answered() -> None:
    assert merged(ApiKey.DELETE_TOPICS, 4, {"topic_names": []}, {}) == {"throttle_time_ms": 0, "responses": []}
    empty = Division(ApiKey.DESCRIBE_GROUPS, 5, {"groups": []}, WORLD, {}, None)
    assert merge(empty, {}) == {"groups": []}, "no cluster is asked"
