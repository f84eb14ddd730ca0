"""Clusters with streams groups: some with brokers that know topology descriptions, some with brokers that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jars import KAFKA_VERSION, NEWEST_BROKERS, kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports
from tests.integration.relay_mesh import RelayMesh
from tests.router.union_mesh import NODES, STRIPPED, UnionMesh
from tests.topologies.asking import TOPIC

PLUGIN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
STREAMS: Mapping[str, str] = {
    "group.streams.session.timeout.ms": "20000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
}
STORE = "kafka-mesh.store"


@contextmanager
def cluster_without(folder: Path, version: str = KAFKA_VERSION) -> Iterator[KafkaCluster]:
    """A cluster of brokers that know no descriptions."""
    yield from _cluster(folder, version, STREAMS)


@contextmanager
def cluster_with(folder: Path) -> Iterator[KafkaCluster]:
    """A cluster of brokers that keep descriptions in memory."""
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
    cluster: KafkaCluster,
    folder: Path,
    name: str = "relay",
    of_store: KafkaCluster | None = None,
    rules: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Iterator[RelayMesh]:
    """A mesh that serves descriptions over it. of_store: the cluster of the store, if it is another one. rules: for its
    clients. more: further keys of `topology_descriptions`."""
    store = {"cluster": "eu" if of_store is None else "us", "topic": STORE, "create": True}
    listener: dict[str, Any] = {"topology_descriptions": {"plugin": "store", **more}}
    if rules:
        listener["authorization"] = {"rules": list(rules)}
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


@contextmanager
def union_of(eu: KafkaCluster, us: KafkaCluster, folder: Path, **listener: Any) -> Iterator[UnionMesh]:
    """A mesh that serves descriptions over the union of both; names with the prefix `us.` belong to us. listener:
    further keys of the virtual cluster."""
    folder.mkdir(exist_ok=True)
    described = {"topology_descriptions": {"plugin": "store"}, **listener}
    store = {"store": {"cluster": "eu", "topic": STORE, "create": True}}
    mesh = UnionMesh(folder, eu, us, listener=described, process=store)
    try:
        yield mesh
    finally:
        mesh.kill()


class ChoiceMesh(MeshProcess):
    """A mesh that leads clients whose id begins with `one` to eu, and all others to the union of eu and us."""

    LEAVES = ("all/eu", "all/us", "one")

    def __init__(self, folder: Path, eu: KafkaCluster, us: KafkaCluster) -> None:
        self._ports = free_ports(len(self.LEAVES) * NODES)
        leaves = {leaf: [f"0-{NODES - 1}"] for leaf in self.LEAVES}
        front = {
            "name": "door",
            "listen": f"127.0.0.1:{free_port()}",
            "nodes": {"ports": f"{self._ports[0]}-{self._ports[-1]}", "ids": leaves},
            "topology_descriptions": {"plugin": "store"},
            "target": {"router": "who"},
        }
        rules = {"rules": [{"client_ids": ["one*"], "route": "one"}], "default": "all"}
        routes = [("all", {"router": "regions"}), ("one", {"cluster": "eu"})]
        regions = [("eu", {"cluster": "eu"}), ("us", {"cluster": "us"})]
        made = [
            [{"name": name, "id": id, "target": target} for id, (name, target) in enumerate(each)]
            for each in (routes, regions)
        ]
        configuration = {
            "store": {"cluster": "eu", "topic": STORE, "create": True},
            "clusters": [
                {"name": "eu", "bootstrap_servers": eu.bootstrap_servers},
                {"name": "us", "bootstrap_servers": us.bootstrap_servers},
            ],
            "routers": [
                {"name": "who", "type": "clients", "config": rules, "routes": made[0]},
                {"name": "regions", "type": "topics", "config": STRIPPED, "routes": made[1]},
            ],
            "virtual_clusters": [front],
        }
        super().__init__(folder, "choice", configuration)

    def address_of(self, leaf: str, node: int) -> str:
        return f"127.0.0.1:{self._ports[self.LEAVES.index(leaf) * NODES + node]}"
