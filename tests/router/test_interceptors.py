"""Interceptors in front of a union of two real clusters: they see the names of topics that clients use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.transactions import Transaction, outcomes
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports
from tests.integration.test_interceptors import cards, produce, read
from tests.router.test_transactions import values
from tests.router.union_mesh import STRIPPED

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}")]


@pytest.fixture
def address(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> Iterator[str]:
    eu, us = kafka_pair
    listen, ports = f"127.0.0.1:{free_port()}", free_ports(6)
    nodes = {"ports": f"{ports[0]}-{ports[-1]}", "ids": {key: ["0-2"] for key in ("eu", "us")}}
    mask = {"name": "cards", "type": "mask", "topics": ["us.cards"], "on": ["fetch"], "config": {"paths": ["card"]}}
    regions = {"header": "region", "equals": "eu"}
    kept = {"name": "regions", "type": "filter", "topics": ["regions"], "on": ["produce"], "config": regions}
    routes = [{"name": each, "id": id, "target": {"cluster": each}} for id, each in enumerate(("eu", "us"))]
    front = {"name": "all", "listen": listen, "nodes": nodes, "interceptors": ["cards", "regions"]}
    configuration = {
        "clusters": [
            {"name": "eu", "bootstrap_servers": eu.bootstrap_servers},
            {"name": "us", "bootstrap_servers": us.bootstrap_servers},
        ],
        "interceptors": [mask, kept],
        "routers": [{"name": "all", "type": "topics", "config": STRIPPED, "routes": routes}],
        "virtual_clusters": [{**front, "target": {"router": "all"}}],
    }
    mesh = MeshProcess(tmp_path, "union", configuration)
    yield listen
    mesh.kill()


@pytest.mark.smoke
def test_a_topic_is_masked_in_one_cluster(kafka_pair: tuple[KafkaCluster, KafkaCluster], address: str) -> None:
    eu, us = kafka_pair
    for cluster in (eu, us):
        cluster.create_topic("cards", 1)
    for topic in ("cards", "us.cards"):
        assert set(produce(address, topic, cards(10))) == {None}
    stored = [value for value, _ in cards(10)]
    assert [value for _, value, _ in read(us.bootstrap_servers, "cards", 9)] == stored
    assert [value for _, value, _ in read(address, "cards", 9)] == stored
    masked = [b'{"id":%d,"card":"****"}' % number for number in range(10)]
    assert [value for _, value, _ in read(address, "us.cards", 9)] == masked


def test_what_producers_send_is_dropped(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], address: str, tmp_path: Path
) -> None:
    """Also in transactions, one of which has no records left. Kafka's own producer does not begin any by the second
    protocol."""
    eu, _ = kafka_pair
    for topic in ("regions", "all"):
        eu.create_topic(topic, 1)
    records = [(str(number).encode(), [("region", (b"us", b"eu")[number % 2])]) for number in range(100)]
    properties = {"enable.idempotence": True, "batch.num.messages": 7}
    assert produce(address, "regions", records, **properties) == [None] * len(records)
    expected = [(offset, value) for offset, (value, _) in enumerate(records[1::2])]
    assert [(offset, value) for offset, value, _ in read(eu.bootstrap_servers, "regions", 49)] == expected
    made = [
        Transaction("nothing", ("regions",)),
        Transaction("one", ("regions", "all")),
        Transaction("aborted", ("regions",), commit=False),
    ]
    assert outcomes(address, "dropped", made, tmp_path) == ["committed", "committed", "aborted"]
    assert [value for _, value, _ in read(eu.bootstrap_servers, "all", 0)] == [b"one"]
    assert len(values(eu, "regions")) == len(expected)
