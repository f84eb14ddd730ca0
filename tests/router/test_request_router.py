"""The router of docs/own-routers.md that answers each request, in front of a real broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports
from tests.routing.installing import install
from tests.routing.test_documentation import shown

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 300


@pytest.fixture
def guarded(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, MeshProcess]]:
    """The address of a mesh with the router."""
    entry = "read-only = read_only:ReadOnlyFactory\n"
    install(tmp_path, "read_only", shown("python", "class ReadOnlyFactory"), entry, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]))
    address, ports = f"127.0.0.1:{free_port()}", free_ports(3)
    nodes = {"ports": f"{ports[0]}-{ports[-1]}"}
    configuration = {
        "clusters": [{"name": "eu", "bootstrap_servers": kafka_pair[0].bootstrap_servers}],
        **yaml.safe_load(shown("yaml", "name: guarded")),
        "virtual_clusters": [{"name": "front", "listen": address, "nodes": nodes, "target": {"router": "guarded"}}],
    }
    mesh = MeshProcess(tmp_path, "guarded", configuration)
    yield address, mesh
    mesh.kill()


@pytest.mark.smoke
def test_everybody_reads_and_nobody_writes(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], guarded: tuple[str, MeshProcess]
) -> None:
    address, _ = guarded
    topic = "guarded-orders"
    kafka_pair[0].create_topic(topic, 2)
    direct = Producer({"bootstrap.servers": kafka_pair[0].bootstrap_servers})
    for number in range(COUNT):
        direct.produce(topic, str(number).encode(), partition=number % 2)
    direct.flush(30)

    consumer = Consumer({"bootstrap.servers": address, "group.id": "guarded-readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: set[int] = set()
    while len(got) < COUNT:
        message = consumer.poll(30)
        assert message is not None, f"{len(got)} of {COUNT}"
        assert message.error() is None
        got.add(int(message.value() or b""))
    consumer.commit(asynchronous=False)
    committed = consumer.committed([TopicPartition(topic, index) for index in range(2)], timeout=30)
    assert [each.offset for each in committed] == [COUNT / 2] * 2
    consumer.close()

    errors: list[str] = []
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 10_000})
    producer.produce(topic, b"mine", on_delivery=lambda error, _: errors.append(error.name() if error else "none"))
    producer.flush(30)
    assert errors == ["TOPIC_AUTHORIZATION_FAILED"]
    admin = AdminClient({"bootstrap.servers": address})
    creating = admin.create_topics([NewTopic("guarded-new", 1)])
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        creating["guarded-new"].result(30)
