"""Two processes of one pool are restarted one after the other: clients of every kind go to the other one meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client, ScriptedMember, command_of
from tests.clients.script import Script
from tests.integration.feeding import Feed, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_ports
from tests.integration.records import account

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
CLIENTS = [each for each in Client if each not in (Client.KCAT, Client.PLATFORMATIC, Client.SEGMENTIO)]
"""kcat uses librdkafka, like confluent-kafka. @platformatic/kafka and kafka-go do not support it: see
docs/clients.md."""
PARTITIONS = 4


class Process(MeshProcess):
    """One of two processes of a pool, that know each other."""

    def __init__(
        self, folder: Path, name: str, port: int, others: str, clusters: tuple[KafkaCluster, ...], topic: str
    ) -> None:
        sources = [{"cluster": each.name, "topic": topic} for each in clusters]
        pool = {"topics": [{"name": topic, "from": sources}], "groups": ["*"], "start": "earliest"}
        self.address = f"127.0.0.1:{port}"
        super().__init__(
            folder,
            name,
            {
                "process_id": name,
                "drain_grace": "8s",
                "drain_timeout": "30s",
                "peers": {"urls": [others], "interval": "200ms"},
                "admin": {"listen": f"127.0.0.1:{port + 2}"},
                "clusters": [{"name": each.name, "bootstrap_servers": each.bootstrap_servers} for each in clusters],
                "virtual_clusters": [{"name": "shop", "listen": self.address, "target": {"pool": pool}}],
            },
        )

    def members(self) -> set[str]:
        """The client ids of the members."""
        (cluster,) = self.status()["virtual_clusters"]
        return {member["client_id"] for pool in cluster["pools"] for member in pool["members"]}


class Pair:
    def __init__(self, folder: Path, clusters: tuple[KafkaCluster, ...], topic: str) -> None:
        ports = free_ports(6)
        urls = [f"http://127.0.0.1:{ports[number]}" for number in (2, 5)]
        self.processes = [
            Process(folder, f"mesh-{number}", ports[3 * number], urls[1 - number], clusters, topic)
            for number in range(2)
        ]


@pytest.fixture
def topic(kafka_pair: tuple[KafkaCluster, KafkaCluster]) -> str:
    for cluster in kafka_pair:
        cluster.create_topic("peers", PARTITIONS)
    return "peers"


@pytest.fixture
def pair(kafka_pair: tuple[KafkaCluster, KafkaCluster], topic: str, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path, kafka_pair, topic)
    yield pair
    for process in pair.processes:
        process.kill()


def test_a_rolling_restart(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], pair: Pair, topic: str, tmp_path: Path
) -> None:
    """One member of each client begins at each process. While one process stops, its members go to the other one; no
    application sees an error, no record is lost, and committed records do not come again."""
    members = []
    for client, (number, process) in itertools.product(CLIENTS, enumerate(pair.processes)):
        name = f"{client.value}-{number}".replace("@", "").replace("/", "-")
        script = Script(bootstrap_servers=process.address, client_id=name, group=topic, topic=topic, commit="sync")
        members.append(ScriptedMember(name, [*command_of(client), script.to_json()], tmp_path))
    feeds = [Feed(cluster, topic, codecs=("none", "gzip")) for cluster in kafka_pair]

    def fed() -> None:
        for feed in feeds:
            feed.produce(600, rate=600)

    try:
        for member in members:
            member.until_assigned()
        fed()
        for process, other in (pair.processes, reversed(pair.processes)):
            process.stop(timeout=60)
            for member in members:
                eventually(f"{member.name} is at the other", lambda: member.name in other.members(), timeout=90)  # noqa: B023
            fed()
            process.restart()
        fed()
        stored = {each.record.id: each for cluster in kafka_pair for each in stored_upstream(cluster, topic)}

        def shown() -> set[str]:
            return {each.id for member in members for each in member.deliveries}

        eventually("all is shown", lambda: shown() >= stored.keys(), timeout=120)
        deliveries = [each for member in members for each in member.deliveries]
        account(stored, deliveries).assert_nothing_lost_or_altered()
        for member in members:
            member.assert_running()
            if not member.name.startswith(Client.FRANZ.value):  # see docs/clients.md
                assert not member.events["error"], (member.name, member.events)
    finally:
        for member in members:
            member.kill()
