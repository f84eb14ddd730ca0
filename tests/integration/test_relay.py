"""A relay of one real broker: the clients' view, and the death of either end."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port
from tests.integration.relay_mesh import RelayMesh

pytestmark = [
    pytest.mark.timeout(300),
]
EXAMPLE = Path(__file__).parents[2] / "config" / "relay.yaml"


@pytest.fixture(scope="module")
def cluster(kafka: KafkaCluster) -> KafkaCluster:
    return kafka


@pytest.fixture
def relay(cluster: KafkaCluster, tmp_path: Path) -> Iterator[RelayMesh]:
    relay = RelayMesh(tmp_path, cluster.bootstrap_servers)
    yield relay
    relay.kill()


def produce(address: str, topic: str, values: range, **properties: object) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, **properties})
    problems: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            problems.append(error)

    for value in values:
        producer.produce(topic, str(value), partition=0, on_delivery=delivered)
    assert producer.flush(120) == 0
    assert not problems


def read(address: str, topic: str, count: int, **properties: object) -> list[tuple[int, int]]:
    """Offsets and values of the first records of its only partition."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, **properties})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, int]] = []

    def more() -> bool:
        for message in consumer.consume(1_000, 0.5):
            assert message.error() is None, message.error()
            found.append((message.offset() or 0, int(message.value() or b"")))
        return len(found) >= count

    eventually("the records", more, timeout=120)
    consumer.close()
    return found


@pytest.mark.smoke
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_offsets_are_the_clusters_own(cluster: KafkaCluster, relay: RelayMesh, acks: str) -> None:
    topic = f"acks-{acks}"
    cluster.create_topic(topic, 1)
    produce(relay.bootstrap_servers, topic, range(5_000), acks=acks)
    expected = [(value, value) for value in range(5_000)]
    assert read(relay.bootstrap_servers, topic, 5_000) == expected
    assert read(cluster.bootstrap_servers, topic, 5_000) == expected


@pytest.mark.smoke
def test_a_transaction_moves_what_a_group_has_read(cluster: KafkaCluster, relay: RelayMesh) -> None:
    cluster.create_topic("input", 1)
    cluster.create_topic("output", 1)
    produce(relay.bootstrap_servers, "input", range(100))
    address = {"bootstrap.servers": relay.bootstrap_servers}
    consumer = Consumer({**address, "group.id": "copier", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["input"])
    producer = Producer({**address, "transactional.id": "copier"})
    producer.init_transactions(60)
    for is_committed in (False, True):
        producer.begin_transaction()
        copied: list[bytes] = []

        def all_copied(copied: list[bytes] = copied) -> bool:
            copied += [message.value() or b"" for message in consumer.consume(100, 0.5) if message.error() is None]
            return len(copied) == 100

        eventually("a hundred records", all_copied, timeout=60)
        for value in copied:
            producer.produce("output", value, partition=0)
        if is_committed:
            offsets, group = consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, group)
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
            consumer.seek(TopicPartition("input", 0, 0))
    consumer.close()
    found = read(relay.bootstrap_servers, "output", 100, **{"isolation.level": "read_committed"})
    assert [value for _, value in found] == list(range(100))
    assert cluster.committed("copier") == {("input", 0): 100}


def test_admin_tools(cluster: KafkaCluster, relay: RelayMesh) -> None:
    cluster.create_topic("described", 2)
    described = cluster.run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", relay.bootstrap_servers, "--describe", "--topic", "described"),
    )
    assert "PartitionCount: 2" in described
    (broker,) = AdminClient({"bootstrap.servers": relay.bootstrap_servers}).list_topics(timeout=30).brokers.values()
    assert f"{broker.host}:{broker.port}" == relay.address_of(1)


def test_a_node_is_declared_while_it_runs(cluster: KafkaCluster, tmp_path: Path) -> None:
    relay = RelayMesh(tmp_path, cluster.bootstrap_servers, nodes=[7])
    try:

        def problems() -> list[str]:
            return [each["problem"] for each in relay.readiness()["degraded"]]

        eventually("the problem is told", lambda: problems() == ["node_without_address"], timeout=60)
        admin = AdminClient({"bootstrap.servers": relay.bootstrap_servers})
        assert not admin.list_topics(timeout=30).brokers
        relay.declare([1])
        eventually("it is over", lambda: not problems(), timeout=60)
        assert read_brokers(relay) == {relay.address_of(1)}
    finally:
        relay.kill()


def read_brokers(relay: RelayMesh) -> set[str]:
    brokers = AdminClient({"bootstrap.servers": relay.bootstrap_servers}).list_topics(timeout=30).brokers
    return {f"{each.host}:{each.port}" for each in brokers.values()}


@pytest.mark.long
def test_producers_outlive_a_broker_and_a_mesh_that_are_killed(cluster: KafkaCluster, relay: RelayMesh) -> None:
    cluster.create_topic("killed", 1)
    values = range(60_000)
    rate = {"enable.idempotence": True, "queue.buffering.max.messages": 2_000, "reconnect.backoff.max.ms": 500}
    producer = Producer({"bootstrap.servers": relay.bootstrap_servers, "linger.ms": 1, **rate})
    delivered = 0
    third, two_thirds = threading.Event(), threading.Event()

    def count(error: object, _message: object) -> None:
        nonlocal delivered
        assert error is None, error
        delivered += 1
        if delivered == len(values) // 3:
            third.set()
        elif delivered == 2 * len(values) // 3:
            two_thirds.set()

    def feed() -> None:
        for value in values:
            while True:
                try:
                    producer.produce("killed", str(value), partition=0, on_delivery=count)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(120)

    feeding = threading.Thread(target=feed)
    feeding.start()
    assert third.wait(120)
    cluster.kill()
    cluster.restart()
    assert two_thirds.wait(120)
    relay.kill()
    relay.restart()
    feeding.join(180)
    assert delivered == len(values)
    assert read(relay.bootstrap_servers, "killed", len(values)) == [(value, value) for value in values]


def test_a_stop_lets_what_waits_be_answered(cluster: KafkaCluster, relay: RelayMesh) -> None:
    cluster.create_topic("stopped", 1)
    produce(relay.bootstrap_servers, "stopped", range(10))
    read(relay.bootstrap_servers, "stopped", 10)
    relay.stop()


def test_the_example_starts(cluster: KafkaCluster, tmp_path: Path) -> None:
    configuration = yaml.safe_load(EXAMPLE.read_text())
    configuration.pop("admin")
    configuration["clusters"][0]["bootstrap_servers"] = cluster.bootstrap_servers
    virtual_cluster = configuration["virtual_clusters"][0]
    first = free_port()
    virtual_cluster |= {"listen": f"127.0.0.1:{free_port()}", "nodes": {"ports": first, "ids": [1]}}
    mesh = MeshProcess(tmp_path, "example", configuration)
    try:
        admin = AdminClient({"bootstrap.servers": virtual_cluster["listen"]})
        assert [each.port for each in admin.list_topics(timeout=30).brokers.values()] == [first]
    finally:
        mesh.kill()
        shutil.rmtree(tmp_path, ignore_errors=True)
