"""The bytes on the wire: no masked value reaches a consumer in clear, and no encrypted value a broker, with any codec,
even while the processes that mask and encrypt are killed."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mesh.interceptors.shipped.encrypt import HEADER
from tests.integration.capture import Capture, batches_in
from tests.integration.interceptor_workers import kill_workers
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually, free_port
from tests.integration.relay_mesh import RelayMesh
from tests.integration.test_interceptors import CODECS, produce, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
SECRET = b"4000-1234-5678"
ROUNDS, COUNT = 4, 50
"""In each round all workers are killed."""
QUICK_AND_LONG = [pytest.param(each, marks=() if each == "zstd" else pytest.mark.long) for each in CODECS]
MESH, CLIENTS = "127.0.0.2", "127.0.0.1"
"""The mesh listens on one address of this machine, and advertises another one, at which the capture listens."""


def values(begin: int) -> list[bytes]:
    return [b'{"id":%d,"card":"%s"}' % (number, SECRET) for number in range(begin, begin + COUNT)]


@pytest.fixture(scope="module")
def behind() -> Iterator[Capture]:
    """The capture between the mesh and the broker."""
    capture = Capture()
    yield capture
    capture.close()


@pytest.fixture(scope="module")
def in_front() -> Iterator[Capture]:
    """The capture between clients and the mesh."""
    capture = Capture()
    yield capture
    capture.close()


class CapturedCluster(KafkaCluster):
    """A cluster that advertises the address of a capture. It listens before the broker starts, for a client that waits
    for the broker may connect there at once."""

    def __init__(self, capture: Capture, folder: Path) -> None:
        self._capture = capture
        self._advertised = f"127.0.0.1:{free_port()}"
        super().__init__("eu", kafka_jars(), folder, {"advertised.listeners": f"PLAINTEXT://{self._advertised}"})

    def _start(self) -> ChildProcess:
        self._capture.stand_at(self._advertised, self.bootstrap_servers)
        return super()._start()


@pytest.fixture(scope="module")
def cluster(behind: Capture, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    cluster = CapturedCluster(behind, tmp_path_factory.mktemp("kafka"))
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def mesh(cluster: KafkaCluster, in_front: Capture, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    interceptors = [
        {
            "name": "cards",
            "type": "mask",
            "topics": ["masked-*"],
            "on": ["fetch"],
            "config": {"paths": ["card"]},
            "retries": 10,
        },
        {
            "name": "secret",
            "type": "encrypt",
            "topics": ["encrypted-*"],
            "on": ["produce", "fetch"],
            "config": {"keys": str(key_file(tmp_path_factory.mktemp("keys")))},
            "retries": 10,
        },
    ]
    mesh = MovedMesh(tmp_path_factory.mktemp("mesh"), cluster.bootstrap_servers, interceptors)
    for address in (mesh.bootstrap_servers, mesh.address_of(1)):
        in_front.stand_at(address, address.replace(CLIENTS, MESH))
    yield mesh
    mesh.kill()


class MovedMesh(RelayMesh):
    """A relay that advertises another address than its own."""

    def __init__(self, folder: Path, cluster: str, interceptors: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(folder, cluster, room=0, interceptors=interceptors)

    def _configuration(self, nodes: Sequence[int]) -> Mapping[str, object]:
        configuration: dict[str, Any] = {**super()._configuration(nodes)}
        (front,) = configuration["virtual_clusters"]
        said = front["listen"]
        front.update(listen=said.replace(CLIENTS, MESH), advertise={"listen": said})
        return configuration


def key_file(folder: Path) -> Path:
    file = folder / "keys"
    file.write_text(f"first {base64.b64encode(os.urandom(32)).decode()}\n")
    return file


def checked(capture: Capture, codec: str) -> None:
    """Asserts that it has carried records with this codec, and none in clear."""
    seen: set[int] = set()
    for stream in capture.streams():
        assert SECRET not in stream
        for found, records in batches_in(stream):
            seen.add(found)
            assert SECRET not in records
    assert CODECS.index(codec) in seen


@pytest.mark.parametrize("codec", QUICK_AND_LONG)
def test_what_is_masked_does_not_reach_consumers(
    cluster: KafkaCluster, mesh: RelayMesh, in_front: Capture, codec: str
) -> None:
    topic = f"masked-{codec}"
    cluster.create_topic(topic, 1)
    for each in range(ROUNDS):
        records = [(value, ()) for value in values(each * COUNT)]
        assert set(produce(cluster.bootstrap_servers, topic, records, **{"compression.type": codec})) == {None}
    in_front.forget()
    own = {"bootstrap.servers": mesh.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer({**own, "max.partition.fetch.bytes": 1_000, "queued.min.messages": 1})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got: list[bytes | None] = []
    kills = 0

    def more() -> bool:
        nonlocal kills
        if len(got) >= kills * COUNT and kills < ROUNDS:
            kills += bool(kill_workers(mesh))
        got.extend(message.value() for message in consumer.consume(COUNT, 0.5) if message.error() is None)
        return len(got) >= ROUNDS * COUNT

    eventually("the records", more, timeout=120)
    consumer.close()
    assert kills == ROUNDS
    assert got == [b'{"id":%d,"card":"****"}' % number for number in range(ROUNDS * COUNT)]
    checked(in_front, codec)


@pytest.mark.parametrize("codec", QUICK_AND_LONG)
def test_what_is_encrypted_does_not_reach_brokers_in_clear(
    cluster: KafkaCluster, mesh: RelayMesh, behind: Capture, codec: str
) -> None:
    topic = f"encrypted-{codec}"
    cluster.create_topic(topic, 1)
    behind.forget()
    producer = Producer(
        {"bootstrap.servers": mesh.bootstrap_servers, "compression.type": codec, "enable.idempotence": True}
    )
    errors: list[object] = []
    for each in range(ROUNDS):
        for value in values(each * COUNT):
            producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
        eventually("workers to kill", lambda: bool(kill_workers(mesh)), timeout=30)
        assert producer.flush(60) == 0
    assert errors == [None] * (ROUNDS * COUNT)
    checked(behind, codec)
    found = read(mesh.bootstrap_servers, topic, ROUNDS * COUNT - 1)
    assert [value for _, value, _ in found] == [value for each in range(ROUNDS) for value in values(each * COUNT)]
    stored = read(cluster.bootstrap_servers, topic, ROUNDS * COUNT - 1)
    assert all(name == HEADER for _, _, headers in stored for name, _ in headers)
    assert not any(SECRET in (value or b"") for _, value, _ in stored)
