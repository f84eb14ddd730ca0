"""Clusters with streams groups: some whose brokers know topology descriptions, some whose brokers do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jars import KAFKA_VERSION, NEWEST_BROKERS, kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.relay_mesh import RelayMesh
from tests.topologies.asking import TOPIC

PLUGIN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
STREAMS: Mapping[str, str] = {
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
}
STORE = "kafka-mesh.store"


@contextmanager
def cluster_without(folder: Path, version: str = KAFKA_VERSION) -> Iterator[KafkaCluster]:
    """Of brokers that know no descriptions."""
    yield from _cluster(folder, version, STREAMS)


@contextmanager
def cluster_with(folder: Path) -> Iterator[KafkaCluster]:
    """Of brokers that keep descriptions in memory."""
    yield from _cluster(folder, NEWEST_BROKERS, {**STREAMS, "group.streams.topology.description.plugin.class": PLUGIN})


def _cluster(folder: Path, version: str, more: Mapping[str, str]) -> Iterator[KafkaCluster]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster("eu", kafka_jars(version), folder, more)
    try:
        cluster.create_topic(TOPIC, 2)
        yield cluster
    finally:
        cluster.kill()


@contextmanager
def mesh_of(
    cluster: KafkaCluster, folder: Path, name: str = "relay", of_store: KafkaCluster | None = None, **more: Any
) -> Iterator[RelayMesh]:
    """A mesh that serves descriptions over it. of_store: the cluster of the store, if that is another one. more: of
    `topology_descriptions`."""
    store = {"cluster": "eu" if of_store is None else "us", "topic": STORE, "create": True}
    listener = {"topology_descriptions": {"plugin": "store", **more}}
    process: dict[str, Any] = {"store": store}
    if of_store is not None:
        clusters = {"eu": cluster, "us": of_store}
        servers = {name: each.bootstrap_servers for name, each in clusters.items()}
        process["clusters"] = [{"name": name, "bootstrap_servers": each} for name, each in servers.items()]
    folder.mkdir(exist_ok=True)
    mesh = RelayMesh(folder, cluster.bootstrap_servers, listener=listener, name=name, process=process)
    try:
        yield mesh
    finally:
        mesh.kill()
