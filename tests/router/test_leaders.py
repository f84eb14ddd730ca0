"""A union with a cluster of several brokers: its leaders move, and one of them dies, while clients go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.integration.processes import eventually
from tests.relay.cluster import NODES, SeveralBrokers
from tests.relay.flow import Flow
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("union of several brokers"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT, RATE = 20_000, 1_000
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
"""The three protocol libraries that Kafka's documentation names first, of Java, C and Go; all idempotent, and so with
producer ids of the other cluster."""
PLACES = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
"""One partition for each node to lead; every node has a replica."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    more = {"min.insync.replicas": "2", **SHORT_SESSIONS}
    cluster = SeveralBrokers("us", kafka_jars(), tmp_path_factory.mktemp("several"), more=more)
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def mesh(
    kafka_pair: tuple[KafkaCluster, KafkaCluster],
    cluster: SeveralBrokers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[UnionMesh]:
    mesh = UnionMesh(tmp_path_factory.mktemp("union"), kafka_pair[0], cluster, name="led", nodes_of_us=NODES)
    yield mesh
    mesh.kill()


@pytest.mark.parametrize(
    "client",
    [CLIENTS[0], *(pytest.param(each, marks=pytest.mark.deep) for each in CLIENTS[1:])],
    ids=lambda client: client.value,
)
def test_leaders_move_and_a_broker_dies(
    cluster: SeveralBrokers, mesh: UnionMesh, client: Client, tmp_path: Path
) -> None:
    topic, address = f"led-{client.value}", mesh.bootstrap_servers
    flow = Flow(cluster, address, client, topic, tmp_path, count=COUNT, rate=RATE, name=f"us.{topic}", places=PLACES)
    try:
        flow.until_acknowledged(0.1)
        for partition, node in ((0, 101), (1, 1), (2, 101)):
            cluster.move_leader(topic, partition, node)
        flow.until_acknowledged(0.4)
        cluster.node(101).kill()
        flow.acknowledged_more()
        cluster.node(101).launch()
        cluster.node(101).wait_until_up()
        for partition, node in ((0, 1), (1, 101), (2, NODES[2])):
            eventually("it has caught up", lambda: cluster.is_in_sync(topic, partition, node))  # noqa: B023
            cluster.move_leader(topic, partition, node)
        flow.is_whole()
        for node in NODES:
            told = 1 << 20 | node
            assert mesh.metric("kafka_mesh_relay_requests_total", node=str(told), api="PRODUCE") > 0
    finally:
        flow.end()
