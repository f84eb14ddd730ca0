"""The answers to clients: one node leads and has everything."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mesh.routing.one_node.rewriting import (
    COORDINATOR,
    NODE,
    NodeEndpoint,
    VisibleNodes,
    log_dirs_of,
    refusal,
    with_broker_id,
)
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree, read_tree, write_tree

ONE = VisibleNodes(NodeEndpoint(NODE, "mesh", 9092), NodeEndpoint(NODE, "mesh", 9092))
TWO = replace(ONE, coordinator=NodeEndpoint(COORDINATOR, "mesh", 9093))


def written(api: ApiKey, version: int, answer: Tree) -> Tree:
    """Writes an answer and reads it again, with the same contents."""
    return read_tree(api, version, Direction.RESPONSE, write_tree(api, version, Direction.RESPONSE, answer))


@pytest.mark.parametrize("version", [0, 8, 12])
def test_metadata_names_one_node(version: int) -> None:
    partitions = [
        {"partition_index": 0, "leader_id": 101, "leader_epoch": 4, "replica_nodes": [101, 7], "isr_nodes": [101]},
        {"partition_index": 1, "leader_id": -1, "leader_epoch": 5, "replica_nodes": [7], "isr_nodes": [7]},
    ]
    brokers = [{"node_id": each, "host": "broker", "port": 1} for each in (7, 101)]
    topics = [{"name": "a", "topic_id": UUID(int=1), "error_code": 0, "partitions": partitions}]
    answer = {"brokers": brokers, "controller_id": 7, "cluster_id": "c", "topics": topics}
    read = read_tree(
        ApiKey.METADATA, 12, Direction.RESPONSE, write_tree(ApiKey.METADATA, 12, Direction.RESPONSE, answer)
    )
    told = written(ApiKey.METADATA, version, TWO.rewritten(ApiKey.METADATA, read))
    assert [(each["node_id"], each["port"]) for each in told["brokers"]] == [(NODE, 9092), (COORDINATOR, 9093)]
    found = told["topics"][0]["partitions"]
    assert [each["leader_id"] for each in found] == [NODE, -1]
    assert [each["replica_nodes"] for each in found] == [[NODE], [NODE]]
    assert [each["isr_nodes"] for each in found] == [[NODE], []]
    if version >= 8:
        assert [each["leader_epoch"] for each in found] == [4, 5], "clients fence by them"
        assert told["controller_id"] == NODE
    assert len(ONE.rewritten(ApiKey.METADATA, read)["brokers"]) == 1


def test_a_coordinator_that_was_found_is_the_node_and_an_error_stays() -> None:
    found = {"error_code": 0, "node_id": 101, "host": "broker", "port": 1, "key": "g"}
    missing = {"error_code": 15, "node_id": -1, "host": "", "port": -1, "key": "h"}
    told = TWO.rewritten(ApiKey.FIND_COORDINATOR, {"coordinators": [found, missing]})["coordinators"]
    assert told == [found | {"node_id": COORDINATOR, "host": "mesh", "port": 9093}, missing]
    assert ONE.rewritten(ApiKey.FIND_COORDINATOR, found)["node_id"] == NODE


def test_a_new_leader_is_the_node_too() -> None:
    partition = {"index": 0, "error_code": 6, "current_leader": {"leader_id": 101, "leader_epoch": 9}}
    answer = {
        "responses": [{"name": "a", "partition_responses": [partition]}],
        "node_endpoints": [{"node_id": 101, "host": "broker", "port": 1}],
    }
    told = written(ApiKey.PRODUCE, 10, ONE.rewritten(ApiKey.PRODUCE, answer))
    leader = told["responses"][0]["partition_responses"][0]["current_leader"]
    assert leader == {"leader_id": NODE, "leader_epoch": 9}
    assert [(each["node_id"], each["host"]) for each in told["node_endpoints"]] == [(NODE, "mesh")]


def test_what_names_brokers_is_refused() -> None:
    topic = {"name": "a", "assignments": [{"partition_index": 0, "broker_ids": [1]}]}
    code, text = refusal(ApiKey.CREATE_TOPICS, {"topics": [topic]}) or (ErrorCode.NONE, "")
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "one node" in text
    assert refusal(ApiKey.CREATE_TOPICS, {"topics": [topic | {"assignments": []}]}) is None
    for name, is_refused in (("1", True), ("", False)):
        resources = [{"resource_type": 4, "resource_name": name}]
        assert (refusal(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": resources}) is not None) is is_refused


def test_the_configuration_of_the_node_is_that_of_the_broker_that_is_asked() -> None:
    asked = {"resources": [{"resource_type": 4, "resource_name": "1"}, {"resource_type": 2, "resource_name": "1"}]}
    sent = with_broker_id(ApiKey.DESCRIBE_CONFIGS, asked, 101)["resources"]
    assert [each["resource_name"] for each in sent] == ["101", "1"]
    told = ONE.rewritten(ApiKey.DESCRIBE_CONFIGS, {"results": sent})["results"]
    assert [each["resource_name"] for each in told] == ["1", "1"]


def test_directories_say_whose_they_are() -> None:
    assert log_dirs_of(101, {"results": [{"log_dir": "/data"}]}) == {"results": [{"log_dir": "broker-101:/data"}]}
