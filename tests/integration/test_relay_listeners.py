"""A relay of a real broker, reached from inside and from outside, with `config/relay-listeners.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port
from tests.integration.security.certificates import Authority

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
EXAMPLE = Path(__file__).parents[2] / "config" / "relay-listeners.yaml"
TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path_factory.mktemp("kafka"))
    cluster.create_topic(TOPIC, 1)
    yield cluster
    cluster.kill()


def example(cluster: KafkaCluster) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration and its virtual cluster, at free ports of this machine."""
    configuration = yaml.safe_load(EXAMPLE.read_text())
    configuration.pop("admin")
    configuration["clusters"][0]["bootstrap_servers"] = cluster.bootstrap_servers
    front: dict[str, Any] = configuration["virtual_clusters"][0]
    (outside,) = front["listeners"]
    front |= {"listen": f"127.0.0.1:{free_port()}", "nodes": {"ports": free_port(), "ids": [1]}}
    port = free_port()
    outside |= {"listen": f"0.0.0.0:{port}", "advertise": f"localhost:{port}"}
    outside["nodes"] = {"ports": free_port(), "ids": [1]}
    return configuration, front


def told(address: str, **properties: str | int | float | bool) -> list[str]:
    """The addresses of the brokers in that one's Metadata."""
    admin = AdminClient({"bootstrap.servers": address, **properties})
    return [f"{each.host}:{each.port}" for each in admin.list_topics(timeout=30).brokers.values()]


class Reader:
    """A consumer of all records. It keeps the problems of its connections."""

    def __init__(self, address: str, **properties: object) -> None:
        self.problems: list[str] = []
        self._values: list[str] = []
        tell = {"error_cb": lambda error: self.problems.append(str(error)), "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", **tell, **properties})
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def has(self, value: str) -> bool:
        self._values += [(message.value() or b"").decode() for message in self._consumer.consume(100, 0.2)]
        return value in self._values

    def close(self) -> None:
        self._consumer.close()


def produce(address: str, value: str, **properties: object) -> None:
    producer = Producer({"bootstrap.servers": address, **properties})
    producer.produce(TOPIC, value, partition=0)
    assert producer.flush(60) == 0


def test_each_side_is_told_of_its_own_addresses(cluster: KafkaCluster, tmp_path: Path) -> None:
    configuration, front = example(cluster)
    (outside,) = front["listeners"]
    mesh = MeshProcess(tmp_path, "example", configuration)
    try:
        assert told(front["listen"]) == [f"127.0.0.1:{front['nodes']['ports']}"]
        assert told(outside["advertise"]) == [f"localhost:{outside['nodes']['ports']}"]
        produce(outside["advertise"], "from outside")
        reader = Reader(front["listen"])
        eventually("inside has it", lambda: reader.has("from outside"))
        reader.close()
    finally:
        mesh.kill()


@pytest.mark.long
def test_one_comes_changes_and_goes_and_the_clients_of_the_other_see_nothing(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    configuration, front = example(cluster)
    (outside,) = listeners = front.pop("listeners")
    mesh = MeshProcess(tmp_path, "reloaded", configuration)
    try:
        reader = Reader(front["listen"])
        produce(front["listen"], "first")
        eventually("the first", lambda: reader.has("first"))

        front["listeners"] = listeners
        assert "virtual cluster front: changed (listeners)" in mesh.reload(configuration)
        assert told(outside["advertise"]) == [f"localhost:{outside['nodes']['ports']}"]
        far = Reader(outside["advertise"])
        eventually("the first, outside", lambda: far.has("first"))

        pair = Authority(tmp_path).issue("localhost")
        outside["tls"] = {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}
        mesh.reload(configuration)
        encrypted: dict[str, str | int | float | bool] = {
            "security.protocol": "ssl",
            "enable.ssl.certificate.verification": False,
        }
        assert told(outside["advertise"], **encrypted) == [f"localhost:{outside['nodes']['ports']}"]
        eventually("it was told that its connections are gone", lambda: far.has("never") or bool(far.problems))
        far.close()

        del front["listeners"]
        mesh.reload(configuration)
        produce(front["listen"], "last")
        eventually("the last", lambda: reader.has("last"))
        assert not reader.problems
        reader.close()
        lost = AdminClient({"bootstrap.servers": outside["advertise"], "log_level": 0, **encrypted})
        with pytest.raises(Exception, match="_TRANSPORT"):
            lost.list_topics(timeout=3)
    finally:
        mesh.kill()
