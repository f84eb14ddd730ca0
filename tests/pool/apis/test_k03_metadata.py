from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from mesh.pool.apis.context import AdvertisedNode, HostAndPort
from mesh.pool.common.effects import RefreshTopics
from mesh.pool.common.topics import ExplicitTopic, PrefixRule, Source, VirtualTopics
from mesh.records.spans import ClusterName, TopicName
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import ENDPOINT, Client, Mesh, versions
from tests.pool.apis.messages import response
from tests.pool.harness import EU, ORDERS, US


def mesh_with_topics() -> Mesh:
    """orders from two clusters, late whose source does not exist yet, and a.* from eu."""
    mesh = Mesh()
    mesh.cluster.topics = VirtualTopics(
        "vc",
        [
            ExplicitTopic(ORDERS, (Source(EU, ORDERS), Source(US, ORDERS))),
            ExplicitTopic(TopicName("late"), (Source(EU, TopicName("late")),)),
        ],
        [PrefixRule("a.", EU)],
    )
    update(mesh, EU, {"orders": 2, "a.b": 1, "other": 3})
    update(mesh, US, {"orders": 1})
    return mesh


def update(mesh: Mesh, cluster: ClusterName, topics: dict[str, int]) -> None:
    mesh.do(mesh.cluster.topics_changed(cluster, {TopicName(name): count for name, count in topics.items()}, mesh.now))


def topic_id(mesh: Mesh, name: str) -> UUID:
    return mesh.cluster.topics.topic_id(TopicName(name))


def known(mesh: Mesh, name: str, count: int) -> dict[str, Any]:
    partitions = tuple(
        {
            "partition_index": index,
            "leader_id": 1,
            "leader_epoch": 0,
            "replica_nodes": (1,),
            "isr_nodes": (1,),
            "offline_replicas": (),
        }
        for index in range(count)
    )
    return {"name": name, "topic_id": topic_id(mesh, name), "is_internal": False, "partitions": partitions}


def unknown(name: str | None, error: ErrorCode, id: UUID | None = None) -> dict[str, Any]:
    return {"name": name, "topic_id": id, "error_code": error, "is_internal": False, "partitions": ()}


def answered(version: int, *topics: dict[str, Any]) -> Any:
    return response(
        ApiKey.METADATA,
        version,
        brokers=(
            {"node_id": 1, "host": "broker.example", "port": 9092},
            {"node_id": 2, "host": "coordinator.example", "port": 9093},
        ),
        cluster_id="mesh-1",
        controller_id=1,
        topics=topics,
    )


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_all_topics(version: int) -> None:
    mesh = mesh_with_topics()
    everything = () if version == 0 else None
    answer = Client(mesh).ask(ApiKey.METADATA, version, topics=everything)
    assert answer == answered(version, known(mesh, "a.b", 1), known(mesh, "orders", 3))


@pytest.mark.parametrize("version", versions(ApiKey.METADATA)[1:])
def test_an_empty_list_means_none(version: int) -> None:
    assert Client(mesh_with_topics()).ask(ApiKey.METADATA, version, topics=()) == answered(version)


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_by_name(version: int) -> None:
    mesh = mesh_with_topics()
    names = ("orders", "late", "a.c", "other")
    answer = Client(mesh).ask(
        ApiKey.METADATA, version, topics=tuple({"name": name} for name in names), allow_auto_topic_creation=True
    )
    missing = [unknown(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names[1:]]
    assert answer == answered(version, known(mesh, "orders", 3), *missing)
    assert mesh.effects.count(RefreshTopics()) == 2, "late and a.c may be there soon; other has no place here"


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "a." + "x" * 248])
def test_names_that_no_topic_can_have(version: int, name: str) -> None:
    mesh = mesh_with_topics()
    answer = Client(mesh).ask(ApiKey.METADATA, version, topics=({"name": name},))
    assert answer == answered(version, unknown(name, ErrorCode.INVALID_TOPIC))
    assert RefreshTopics() not in mesh.effects


@pytest.mark.parametrize("name", [None, ""])
def test_by_id(name: str | None) -> None:
    """When Kafka's own client asks by id, it leaves the name at its default, which is not null."""
    mesh = mesh_with_topics()
    foreign = UUID(int=7)
    asked = tuple({"name": name, "topic_id": id} for id in (topic_id(mesh, "orders"), foreign))
    answer = Client(mesh).ask(ApiKey.METADATA, 12, topics=asked)
    missing = unknown(None, ErrorCode.UNKNOWN_TOPIC_ID, foreign)
    assert answer == answered(12, known(mesh, "orders", 3), missing)


def test_by_nothing() -> None:
    answer = Client(mesh_with_topics()).ask(ApiKey.METADATA, 12, topics=({"name": None, "topic_id": None},))
    assert answer == answered(12, unknown(None, ErrorCode.UNKNOWN_TOPIC_ID))


def test_partitions_that_grow_and_topics_that_come() -> None:
    mesh = mesh_with_topics()
    client = Client(mesh)
    update(mesh, EU, {"orders": 3, "late": 1})
    answer = client.ask(ApiKey.METADATA, 12, topics=None)
    assert answer == answered(12, known(mesh, "late", 1), known(mesh, "orders", 4))


def test_ids_are_the_same_in_every_process() -> None:
    first, second = topic_id(mesh_with_topics(), "orders"), topic_id(mesh_with_topics(), "orders")
    assert first == second != UUID(int=0)


def test_further_nodes_lead_partitions_in_turn() -> None:
    further = tuple(AdvertisedNode(id, HostAndPort("broker.example", 9097 + id)) for id in (3, 4))
    mesh = Mesh(endpoint=replace(ENDPOINT, further=further))
    update(mesh, EU, {"orders": 5})
    answer = Client(mesh).ask(ApiKey.METADATA, 12, topics=None)
    assert [(each.node_id, each.port) for each in answer.brokers] == [(1, 9092), (2, 9093), (3, 9100), (4, 9101)]
    (orders,) = answer.topics
    leaders = [each.leader_id for each in orders.partitions]
    assert set(leaders[:3]) == {1, 3, 4}
    assert leaders[3:6] == leaders[:3]
    assert all(each.replica_nodes == each.isr_nodes == (each.leader_id,) for each in orders.partitions)
    described = Client(mesh).ask(ApiKey.DESCRIBE_CLUSTER, 1)
    assert {each.broker_id: each.port for each in described.brokers} == {1: 9092, 2: 9093, 3: 9100, 4: 9101}
