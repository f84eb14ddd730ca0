"""Interceptors that fail in a relay of a real broker: their clients get errors, and no others notice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.relay_mesh import RelayMesh
from tests.integration.test_interceptors import produce, read
from tests.runtime.interception.installing import install
from tests.runtime.interception.misbehaving import Misbehaving

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
ROOT = Path(__file__).parents[2]
Start = Callable[..., RelayMesh]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path_factory.mktemp("kafka"))
    yield cluster
    cluster.kill()


@pytest.fixture
def start(cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a mesh with one interceptor, which gets further keys."""
    install(tmp_path, f"{Misbehaving.__module__}:{Misbehaving.__name__}", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), str(ROOT)]))
    meshes: list[RelayMesh] = []

    def start(topic: str, on: str, **more: Any) -> RelayMesh:
        interceptor: Mapping[str, Any] = {"name": "it", "type": "misbehaving", "topics": [topic], "on": [on], **more}
        mesh = RelayMesh(tmp_path, cluster.bootstrap_servers, interceptors=[interceptor])
        meshes.append(mesh)
        return mesh

    yield start
    for mesh in meshes:
        mesh.kill()


def code_of(mesh: RelayMesh, topic: str, value: bytes) -> int | None:
    (error,) = produce(mesh.bootstrap_servers, topic, [(value, ())], retries=0)
    return None if error is None else error.code()


def test_producers_are_told(cluster: KafkaCluster, start: Start) -> None:
    for topic in ("told", "beside"):
        cluster.create_topic(topic, 1)
    mesh = start("told", "produce", timeout="10s", retries=0)  # a worker starts within it, too
    assert code_of(mesh, "told", b"hang") == KafkaError.REQUEST_TIMED_OUT
    for value in (b"die", b"exit", b"eat", b"rubbish"):
        assert code_of(mesh, "told", value) == KafkaError.INVALID_RECORD
    assert code_of(mesh, "told", b"good") is None
    assert [value for _, value, _ in read(cluster.bootstrap_servers, "told", 0)] == [b"good"], "nothing else is stored"
    assert mesh.metric("kafka_mesh_interceptor_timeouts_total", interceptor="it") == 1
    assert mesh.metric("kafka_mesh_interceptor_workers_lost_total") == 5
    assert mesh.metric("kafka_mesh_interceptor_records_total", interceptor="it", topic="told", outcome="failed") == 4
    (entry, *_) = [each for each in mesh.log_entries() if each["event"] == "interceptor failed"]
    assert (entry["interceptor"], entry["topic"], entry["on"]) == ("it", "told", "produce")


def test_others_go_on_while_one_hangs(cluster: KafkaCluster, start: Start) -> None:
    for topic in ("hangs", "goes-on"):
        cluster.create_topic(topic, 1)
    mesh = start("hangs", "produce", timeout="1h", retries=0)
    hanging = Producer({"bootstrap.servers": mesh.bootstrap_servers, "linger.ms": 0})
    hanging.produce("hangs", b"hang", partition=0)
    hanging.poll(0)
    assert produce(mesh.bootstrap_servers, "goes-on", [(b"%d" % number, ()) for number in range(500)]) == [None] * 500
    assert len(read(mesh.bootstrap_servers, "goes-on", 499)) == 500
    assert len(hanging) == 1
    mesh.stop()


def test_a_consumer_waits_at_a_record_that_fails_and_goes_on_later(cluster: KafkaCluster, start: Start) -> None:
    cluster.create_topic("stands", 2)
    produce(cluster.bootstrap_servers, "stands", [(b"good", ()), (b"die", ()), (b"after", ())], **{"linger.ms": 0})
    mesh = start("stands", "fetch", retries=0)
    consumer = Consumer({"bootstrap.servers": mesh.bootstrap_servers, "group.id": "stands"})
    consumer.assign([TopicPartition("stands", each, 0) for each in (0, 1)])
    other = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    other.produce("stands", b"beside", partition=1)
    assert other.flush(30) == 0
    found: list[bytes | None] = []

    def more(wanted: bytes) -> bool:
        for message in consumer.consume(100, 0.2):
            assert message.error() is None, message.error()
            found.append(message.value())
        return wanted in found

    eventually("the other partition", lambda: more(b"beside"), timeout=60)
    eventually("its failures", lambda: mesh.metric("kafka_mesh_interceptor_workers_lost_total") >= 2, timeout=60)
    more(b"")
    assert found == [b"beside"]
    consumer.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("effect", "interceptor"),
    [
        pytest.param("nothing", {}, marks=pytest.mark.deep),
        pytest.param(
            "check",
            {"type": "size", "config": {"maximum": "1MiB"}, "isolation": "process", "retries": 3},
            marks=pytest.mark.deep,
        ),
        ("map", {"type": "stamp", "config": {"headers": {"by": "x"}}, "isolation": "process", "retries": 3}),
    ],
)
def test_what_was_committed_is_there_once_when_a_mesh_was_killed(
    cluster: KafkaCluster, start: Start, effect: str, interceptor: Mapping[str, Any]
) -> None:
    """Transactions through interceptors in workers; the mesh is killed in the middle of one, again and again."""
    topic = f"killed-{effect}"
    cluster.create_topic(topic, 1)
    mesh = start(topic, "produce", **interceptor)
    committed: list[bytes] = []
    undecided: set[bytes] = set()
    number = 0
    for _ in range(3):
        producer = Producer({"bootstrap.servers": mesh.bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
        producer.init_transactions(60)
        for step in range(4):
            names = [b"%d" % each for each in range(number, number + 5)]
            number += 5
            producer.begin_transaction()
            for name in names:
                producer.produce(topic, name, partition=0)
            if step == 3:
                producer.poll(0.05)
                mesh.kill()
            try:
                producer.commit_transaction(5 if step == 3 else 60)
                committed += names
            except KafkaException:
                undecided |= set(names)
        mesh.restart()
    ending = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    ending.init_transactions(60)  # aborts undecided transactions
    ending.begin_transaction()
    ending.produce(topic, b"last", partition=0)
    ending.commit_transaction(60)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def until_last() -> bool:
        found.extend(message.value() or b"" for message in consumer.consume(100, 0.2))
        return b"last" in found

    eventually("the last one", until_last, timeout=60)
    consumer.close()
    assert len(set(found)) == len(found), "nothing is there twice"
    assert [each for each in found if each not in undecided] == [*committed, b"last"]
