"""Producers and consumers through a union, while either cluster and the mesh die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.relay.flow import Flow
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("union and kills"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT, RATE = 24_000, 600
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
"""The three protocol libraries that Kafka's documentation names first, of Java, C and Go; all idempotent."""


@pytest.fixture(scope="module")
def mesh(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UnionMesh]:
    mesh = UnionMesh(tmp_path_factory.mktemp("union"), *kafka_pair, name="killed")
    yield mesh
    mesh.kill()


@pytest.mark.parametrize(
    "client",
    [CLIENTS[0], *(pytest.param(each, marks=pytest.mark.deep) for each in CLIENTS[1:])],
    ids=lambda client: client.value,
)
def test_clusters_and_the_mesh_die(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: UnionMesh, client: Client, tmp_path: Path
) -> None:
    """Each with kill -9. While us is dead, requests about eu go on, and vice versa."""
    eu, us = kafka_pair
    topic = f"killed-{client.value}"
    address = mesh.bootstrap_servers
    of_eu = Flow(eu, address, client, topic, tmp_path / "eu", count=COUNT, rate=RATE)
    of_us = Flow(us, address, client, topic, tmp_path / "us", count=COUNT, rate=RATE, name=f"us.{topic}")
    flows = [of_eu, of_us]
    try:
        for flow in flows:
            flow.until_acknowledged(0.1)
        us.kill()
        of_eu.acknowledged_more()
        us.restart()
        of_us.acknowledged_more()
        mesh.kill()
        mesh.restart()
        for flow in flows:
            flow.acknowledged_more()
        eu.kill()
        of_us.acknowledged_more()
        eu.restart()
        for flow in flows:
            flow.is_whole()
    finally:
        for flow in flows:
            flow.end()
