"""Producers and consumers through a relay, while brokers and the mesh die, leaders move, and a broker is added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS
from tests.integration.processes import eventually
from tests.integration.records import account
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers
from tests.relay.flow import Flow

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("relay and kills"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT, RATE = 20_000, 1_000
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
"""The three protocol libraries that Kafka's documentation names first, of Java, C and Go; all idempotent."""
PLACES = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
"""One partition for each node to lead; every node has a replica."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    # Otherwise a leader may acknowledge alone on a slow machine and then die: the cluster itself has lost that record.
    more = {"min.insync.replicas": "2", **SHORT_SESSIONS}
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("several"), more=more)
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def relay(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    relay = RelayMesh(tmp_path_factory.mktemp("relay"), cluster.every_address, NODES)
    yield relay
    relay.kill()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.value)
def test_brokers_and_the_mesh_die(cluster: SeveralBrokers, relay: RelayMesh, client: Client, tmp_path: Path) -> None:
    """A leader, and the mesh, die with kill -9; then leaders are moved. The member sees all records at the cluster's
    offsets."""
    topic = f"killed-{client.value}"
    flow = Flow(cluster, relay.bootstrap_servers, client, topic, tmp_path, count=COUNT, rate=RATE, places=PLACES)
    try:
        flow.until_acknowledged(0.15)
        cluster.node(101).kill()
        cluster.node(101).launch()
        flow.until_acknowledged(0.5)
        cluster.node(101).wait_until_up()
        relay.kill()
        relay.restart()
        flow.until_acknowledged(0.7)
        for partition, node in ((0, 101), (1, 1), (2, 101)):
            eventually("it has caught up", lambda: cluster.is_in_sync(topic, partition, node))  # noqa: B023
            cluster.move_leader(topic, partition, node)
        flow.is_whole()
    finally:
        flow.end()


def test_a_broker_is_added(cluster: SeveralBrokers, relay: RelayMesh, tmp_path: Path) -> None:
    """The broker is declared, and gets a replica that leads, while a client goes on. It has started before: that may
    take longer than the client."""
    address = relay.bootstrap_servers
    cluster.add(7)
    flow = Flow(cluster, address, Client.CONFLUENT, "grown", tmp_path, count=COUNT, rate=RATE, places=PLACES)
    try:
        flow.until_acknowledged(0.01)
        relay.declare([7])
        cluster.place("grown", 0, 7, 1)
        account(flow.is_whole(), flow.member.deliveries).assert_each_once()
        for api in ("PRODUCE", "FETCH"):
            assert relay.metric("kafka_mesh_relay_requests_total", node="7", api=api) > 0
    finally:
        flow.end()
