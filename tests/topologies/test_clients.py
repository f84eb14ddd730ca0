"""Kafka's own clients: a 4.4 client pushes through a mesh over brokers of both kinds; Kafka Streams 4.3.1 never
pushes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.clients.building import streams_classes, topology_classes
from tests.integration.jars import NEWEST_CLIENTS, STREAMS, kafka_jars
from tests.integration.java import java
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.topologies.asking import TOPIC, Asking
from tests.topologies.clusters import cluster_with, cluster_without, mesh_of, union_of

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.xdist_group("topologies")]

NOT_STORED, AVAILABLE = 1, 3
OF_BOTH_KINDS = pytest.mark.parametrize(
    "clusters",
    [pytest.param(cluster_without, marks=pytest.mark.deep), cluster_with],
    ids=["4.3.1", "4.4.0"],
)


def command(name: str, *arguments: str) -> list[str]:
    return java(kafka_jars(NEWEST_CLIENTS), name, *arguments, classes=topology_classes())


def administrator(*arguments: str) -> list[str]:
    done = subprocess.run(command("Groups", *arguments), capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def status(ask: Asking, group: str) -> int:
    return int(ask.describe(group)["groups"][0]["topology_description_status"])


@OF_BOTH_KINDS
def test_kafkas_own_client_pushes_when_it_is_asked(
    clusters: Callable[[Path], AbstractContextManager[KafkaCluster]], tmp_path: Path
) -> None:
    with clusters(tmp_path / "cluster") as cluster, mesh_of(cluster, tmp_path / "mesh") as mesh:
        ask = Asking(mesh.address_of(1))
        ask.wait_for_coordinator()
        ask.wait_for_store()
        servers = mesh.bootstrap_servers
        members = {
            name: ChildProcess(command("Member", servers, name, TOPIC, name), log=tmp_path / f"{name}.log")
            for name in ("push", "silent")
        }
        try:
            eventually("the description has come", lambda: status(ask, "push") == AVAILABLE, timeout=120, interval=0.5)
            said, described = administrator(servers, "describe", "push")
            assert said == "AVAILABLE"
            assert TOPIC in described and "counts" in described
            eventually("the other one has joined", lambda: status(ask, "silent") == NOT_STORED, timeout=120)
        finally:
            for member in members.values():
                member.kill()
        eventually("it is deleted", lambda: administrator(servers, "delete", "push") == ["deleted"], timeout=120)
        assert administrator(servers, "describe", "push") == ["GroupIdNotFoundException"]


def test_kafka_streams_works_as_without(tmp_path: Path) -> None:
    with cluster_without(tmp_path / "cluster") as cluster, mesh_of(cluster, tmp_path / "mesh") as mesh:
        assert_counted(mesh.bootstrap_servers, cluster, "", tmp_path)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_kafka_streams_works_through_a_union(tmp_path: Path) -> None:
    """With the home at a cluster without descriptions, and at one with them."""
    with (
        cluster_without(tmp_path / "eu") as eu,
        cluster_with(tmp_path / "us") as us,
        union_of(eu, us, tmp_path / "mesh") as mesh,
    ):
        for cluster, prefix in ((eu, ""), (us, "us.")):
            folder = tmp_path / f"of-{prefix}"
            folder.mkdir()
            assert_counted(mesh.bootstrap_servers, cluster, prefix, folder)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_kafkas_own_client_pushes_through_a_union(tmp_path: Path) -> None:
    with (
        cluster_without(tmp_path / "eu") as eu,
        cluster_with(tmp_path / "us") as us,
        union_of(eu, us, tmp_path / "mesh") as mesh,
    ):
        for route, prefix in (("eu", ""), ("us", "us.")):
            ask = Asking(mesh.address_of(route, 1), prefix=prefix)
            ask.wait_for_coordinator()
            ask.wait_for_store()
            group, servers = f"{prefix}push", mesh.bootstrap_servers
            member = ChildProcess(
                command("Member", servers, group, prefix + TOPIC, "push"), log=tmp_path / f"{group}.log"
            )
            try:
                eventually("the description has come", lambda: status(ask, group) == AVAILABLE, timeout=120)  # noqa: B023
                said, described = administrator(servers, "describe", group)
                assert (said, f"{prefix}{TOPIC}" in described) == ("AVAILABLE", True)
            finally:
                member.kill()
            eventually("it is deleted", lambda: administrator(servers, "delete", group) == ["deleted"], timeout=120)  # noqa: B023


def assert_counted(servers: str, cluster: KafkaCluster, prefix: str, folder: Path) -> None:
    """An application counts the records of a topic. prefix: of all names in front of the cluster."""
    for topic in ("read", "counts"):
        cluster.create_topic(topic, 2)
    topics = f"{prefix}read", f"{prefix}counts"
    arguments = (servers, f"{prefix}application", "streams", *topics, str(folder / "state"))
    command_line = java(kafka_jars(STREAMS), "Counts", *arguments, classes=streams_classes())
    application = ChildProcess(command_line, log=folder / "application.log")
    try:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(100):
            producer.produce("read", b"value", key=f"key-{number % 10}")
        producer.flush(30)
        assert sorted(read(cluster, "counts", 100)) == sorted(
            (f"key-{key}".encode(), str(count).encode()) for key in range(10) for count in range(1, 11)
        )
    finally:
        application.kill()


def raw(part: str | bytes | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""


def read(cluster: KafkaCluster, topic: str, count: int) -> list[tuple[bytes, bytes]]:
    """The first records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[bytes, bytes]] = []

    def is_whole() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((raw(message.key()), raw(message.value())))
        return len(found) >= count

    try:
        eventually(f"{count} records of {topic}", is_whole, timeout=180, interval=0)
    finally:
        consumer.close()
    return found
