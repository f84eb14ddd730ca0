"""Requests by leaders, and by coordinators; and every API has a way."""

from __future__ import annotations

import pytest

from mesh.routing.kit.merge import arrays_of
from mesh.routing.one_node.division import by_coordinators, by_leaders, keys_of, partitions_of
from mesh.routing.one_node.one_node_apis import ONE_NODE_APIS, SERVED_BY_ONE_NODE, BrokerDestination
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree


def offsets(*partitions: tuple[str, int]) -> Tree:
    topics: dict[str, list[Tree]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append({"partition_index": index, "timestamp": -1})
    return {"replica_id": -1, "topics": [{"name": name, "partitions": each} for name, each in topics.items()]}


def test_each_leader_is_asked_about_its_partitions_and_the_answers_are_in_order() -> None:
    asked = offsets(("a", 0), ("a", 1), ("b", 0))
    pieces = by_leaders(ApiKey.LIST_OFFSETS, 7, asked, lambda _, partition: partition)
    assert pieces == {0: offsets(("a", 0), ("b", 0)), 1: offsets(("a", 1))}
    assert list(partitions_of(ApiKey.LIST_OFFSETS, 7, asked)) == [("a", 0), ("a", 1), ("b", 0)]
    answers = [
        {"topics": [{**topic, "partitions": [{**each, "offset": broker} for each in topic["partitions"]]}]}
        for broker, piece in sorted(pieces.items(), reverse=True)
        for topic in piece["topics"]
    ]
    joined = arrays_of(ApiKey.LIST_OFFSETS, 7, asked, answers)["topics"]
    found = [
        (topic["name"], each["partition_index"], each["offset"]) for topic in joined for each in topic["partitions"]
    ]
    assert found == [("a", 0, 0), ("a", 1, 1), ("b", 0, 0)]


def test_each_coordinator_is_asked_about_its_groups() -> None:
    asked = {"groups": ["a", "bb", "c"], "include_authorized_operations": False}
    assert keys_of(ApiKey.DESCRIBE_GROUPS, 5, asked) == ["a", "bb", "c"]
    pieces = by_coordinators(ApiKey.DESCRIBE_GROUPS, 5, asked, len)
    assert {place: piece["groups"] for place, piece in pieces.items()} == {1: ["a", "c"], 2: ["bb"]}


@pytest.mark.parametrize(
    ("api", "version", "request_", "keys"),
    [
        (ApiKey.HEARTBEAT, 4, {"group_id": "g"}, ("g",)),
        (ApiKey.TXN_OFFSET_COMMIT, 3, {"group_id": "g", "transactional_id": "t", "topics": []}, ("g",)),
        (ApiKey.ADD_OFFSETS_TO_TXN, 3, {"group_id": "g", "transactional_id": "t"}, ("t",)),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3, {"v3_and_below_transactional_id": "t", "v3_and_below_topics": []}, ("t",)),
        (ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None}, ()),
    ],
)
def test_the_coordinator_of_each_group(api: ApiKey, version: int, request_: Tree, keys: tuple[str, ...]) -> None:
    assert tuple(keys_of(api, version, request_)) == keys


def test_every_api_has_a_way() -> None:
    assert ONE_NODE_APIS.keys() == RELAYED_APIS.keys()
    for key, row in ONE_NODE_APIS.items():
        assert (row.destination is BrokerDestination.NOT_SERVED) is (key not in SERVED_BY_ONE_NODE)
        assert bool(row.reason) is (row.destination is BrokerDestination.NOT_SERVED or row.highest is not None)
