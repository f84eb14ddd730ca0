"""A topic is moved to a cluster of three brokers, with each partition on all of them, and back; meanwhile leading
brokers die, and leaders move at the new cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.integration.processes import eventually
from tests.relay.cluster import NODES, SeveralBrokers
from tests.relay.flow import Flow
from tests.router.move_mesh import MoveMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.deep,
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("union of several brokers"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT, RATE = 20_000, 400


@pytest.fixture(scope="module")
def us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    more = {"min.insync.replicas": "2", **SHORT_SESSIONS}
    cluster = SeveralBrokers("us", kafka_jars(), tmp_path_factory.mktemp("several"), more=more)
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def mesh(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], us: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MoveMesh]:
    mesh = MoveMesh(tmp_path_factory.mktemp("moves"), kafka_pair[0], us, "replicas", nodes_of_us=NODES)
    yield mesh
    mesh.kill()


@pytest.mark.parametrize("client", [Client.CONFLUENT, Client.JAVA, Client.FRANZ], ids=lambda client: client.value)
def test_leaders_die_during_the_copy(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], us: SeveralBrokers, mesh: MoveMesh, client: Client, tmp_path: Path
) -> None:
    """Leaders of the target and of the source, so many seconds after the beginning; each broker comes back."""
    eu, topic = kafka_pair[0], f"replicated-{client.value}"
    flow = Flow(eu, mesh.bootstrap_servers, client, topic, tmp_path, count=COUNT, rate=RATE)
    try:
        flow.until_acknowledged(0.02)
        mesh.begin(topic, to="us")
        dies(us, 101, mesh, topic, "us", 0.1)
        flow.acknowledged_more()
        for partition in range(3):
            leader = next(node for node in NODES if node != us.leader(topic, partition))
            eventually("it has all", lambda: us.is_in_sync(topic, partition, leader))  # noqa: B023
            us.move_leader(topic, partition, leader)
        flow.acknowledged_more()
        for node, seconds in ((NODES[2], 0.1), (101, 0.4)):
            mesh.begin(topic, back="true")
            dies(us, node, mesh, topic, "eu", seconds)
            flow.acknowledged_more()
            mesh.begin(topic, to="us")
            dies(us, node, mesh, topic, "us", seconds)
            flow.acknowledged_more()
        flow.is_whole(us)
    finally:
        flow.end()


def dies(us: SeveralBrokers, node: int, mesh: MoveMesh, topic: str, place: str, seconds: float) -> None:
    time.sleep(seconds)  # to be anywhere in it
    us.node(node).kill()
    mesh.until_at(topic, place)
    us.node(node).launch()
    us.node(node).wait_until_up()
