"""Several processes at one address in front of real clusters, killed while clients of every kind go on."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.bench import Client, ScriptedMember, command_of
from tests.clients.script import Script
from tests.integration.feeding import Feed, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_ports
from tests.integration.records import account
from tests.relay.flow import Flow

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
WORKERS = 2
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ, Client.SARAMA, Client.AIOKAFKA, Client.KAFKAJS)
"""One client of each protocol library, with two members each."""


class Workers(MeshProcess):
    """A pool with a topic of each cluster, and a relay of the first cluster."""

    def __init__(self, folder: Path, clusters: tuple[KafkaCluster, KafkaCluster], topic: str) -> None:
        ports = free_ports(2 + 2 * WORKERS + 2)
        self.pool, self.relay = f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[-2]}"
        sources = [{"cluster": each.name, "topic": topic} for each in clusters]
        pool = {"topics": [{"name": topic, "from": sources}], "groups": ["*"], "start": "earliest"}
        relay: dict[str, Any] = {"listen": self.relay, "nodes": {"ids": [1], "ports": f"{ports[-1]}-{ports[-1]}"}}
        configuration = {
            "workers": WORKERS,
            "process_id": "mesh",
            "clusters": [{"name": each.name, "bootstrap_servers": each.bootstrap_servers} for each in clusters],
            "virtual_clusters": [
                {"name": "pooled", "listen": self.pool, "target": {"pool": pool}},
                {"name": "relayed", **relay, "target": {"relay": {"cluster": clusters[0].name}}},
            ],
        }
        super().__init__(folder, "workers", configuration)

    def kill_worker(self, number: int) -> None:
        """kill -9; returns when the worker is back, and all are ready."""
        (pid,) = (each["pid"] for each in self.status()["workers"] if each["number"] == number)
        os.kill(pid, signal.SIGKILL)
        eventually("it is noticed", lambda: self.restarts(number) > 0)
        eventually("all are ready", self.is_ready, timeout=120)

    def restarts(self, number: int) -> int:
        found: int = next(each["restarts"] for each in self.status()["workers"] if each["number"] == number)
        return found

    def members_of(self, number: int) -> int:
        (cluster,) = (each for each in self.status()["virtual_clusters"] if each["name"] == "pooled")
        return sum(each["worker"] == number for pool in cluster["pools"] for each in pool["members"])


@pytest.fixture
def mesh(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Workers]:
    topic = re.sub(r"\W|_", "-", request.node.name)
    for cluster in kafka_pair:
        cluster.create_topic(topic, 4)
    mesh = Workers(tmp_path, kafka_pair, topic)
    yield mesh
    mesh.kill()


def test_members_of_every_kind_share_all_while_each_worker_dies(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: Workers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic = re.sub(r"\W|_", "-", request.node.name)
    members = []
    for client, number in itertools.product(CLIENTS, range(2)):
        name = f"{client.value}-{number}".replace("@", "").replace("/", "-")
        script = Script(bootstrap_servers=mesh.pool, client_id=name, group=topic, topic=topic, commit="sync")
        members.append(ScriptedMember(name, [*command_of(client), script.to_json()], tmp_path))
    feeds = [Feed(cluster, topic, codecs=("none", "gzip")) for cluster in kafka_pair]

    def fed() -> None:
        for feed in feeds:
            feed.produce(1_000, rate=500)

    try:
        for member in members:
            member.until_assigned()
        assert mesh.members_of(1) + mesh.members_of(2) == len(members)
        fed()
        for number in range(1, WORKERS + 1):
            mesh.kill_worker(number)
            fed()
        stored = {each.record.id: each for cluster in kafka_pair for each in stored_upstream(cluster, topic)}
        assert len(stored) == 6_000

        def shown() -> set[str]:
            return {each.id for member in members for each in member.deliveries}

        eventually("all is shown", lambda: shown() >= stored.keys(), timeout=120)
        account(stored, [each for member in members for each in member.deliveries]).assert_nothing_lost_or_altered()
        for member in members:
            member.assert_running()
    finally:
        for member in members:
            member.kill()


@pytest.mark.parametrize("client", [Client.CONFLUENT, Client.JAVA], ids=lambda client: client.value)
def test_a_relay_while_each_worker_dies(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: Workers, client: Client, tmp_path: Path
) -> None:
    """Producers and members come to any worker, and go on with another one after a kill."""
    flow = Flow(kafka_pair[0], mesh.relay, client, f"workers-{client.value}", tmp_path, count=6_000, rate=400)
    try:
        flow.until_acknowledged(0.1)
        for number in range(1, WORKERS + 1):
            mesh.kill_worker(number)
            flow.acknowledged_more()
        flow.is_whole()
    finally:
        flow.end()
