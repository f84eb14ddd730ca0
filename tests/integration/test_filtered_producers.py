"""Producers whose records interceptors drop, through a relay of a real broker.

The kept records are stored once and in order, even if the broker or the mesh is killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from tests.clients.bench import Client, producer_of
from tests.clients.producing import Feed
from tests.integration.feeding import stored_upstream
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.integration.relay_mesh import RelayMesh
from tests.integration.test_interceptors import CODECS, produce, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
COUNT = 200
FILTER = {
    "name": "only-eu",
    "type": "filter",
    "topics": ["regions*"],
    "on": ["produce"],
    "config": {"header": "region", "equals": "eu"},
}
LAST = "last"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path_factory.mktemp("kafka"), SHORT_SESSIONS)
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def mesh(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    mesh = RelayMesh(tmp_path_factory.mktemp("mesh"), cluster.bootstrap_servers, interceptors=[FILTER])
    yield mesh
    mesh.kill()


def is_kept(number: int) -> bool:
    return number % 3 == 0


def header(number: int) -> Sequence[tuple[str, bytes]]:
    return [("region", b"eu" if is_kept(number) else b"us")]


def numbers(count: int, begin: int = 0) -> list[tuple[bytes, Sequence[tuple[str, bytes]]]]:
    return [(str(number).encode(), header(number)) for number in range(begin, begin + count)]


def stored(cluster: KafkaCluster, topic: str) -> list[tuple[int, int]]:
    """Offset and number of each record that a consumer gets, up to one that is produced to find the end."""
    assert produce(cluster.bootstrap_servers, topic, [(LAST.encode(), ())]) == [None]
    found: list[tuple[int, int]] = []
    until = 0
    while not found or found[-1][1] != -1:
        records = read(cluster.bootstrap_servers, topic, until)
        found = [(offset, -1 if value == LAST.encode() else int(value or b"")) for offset, value, _ in records]
        until = found[-1][0] + 1
    return found[:-1]


@pytest.mark.parametrize(("codec", "is_idempotent"), [*((codec, True) for codec in CODECS), ("lz4", False)])
def test_kept_records_have_offsets_without_gaps(
    cluster: KafkaCluster, mesh: RelayMesh, codec: str, is_idempotent: bool
) -> None:
    topic = f"regions-{codec}-{is_idempotent}"
    cluster.create_topic(topic, 1)
    properties = {"compression.type": codec, "enable.idempotence": is_idempotent, "batch.num.messages": 7}
    assert produce(mesh.bootstrap_servers, topic, numbers(COUNT), **properties) == [None] * COUNT
    kept = [number for number in range(COUNT) if is_kept(number)]
    assert stored(cluster, topic) == list(enumerate(kept))


def test_what_is_dropped_whole_is_answered_as_stored(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    topic = "regions-whole"
    cluster.create_topic(topic, 1)
    records = [(b"0", [("region", b"us")])] * 20
    assert produce(mesh.bootstrap_servers, topic, records, **{"enable.idempotence": True}) == [None] * 20
    assert stored(cluster, topic) == []


def test_a_broker_that_is_killed_stores_each_once(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    topic = "regions-killed"
    cluster.create_topic(topic, 1)
    producer = Producer(
        {
            "bootstrap.servers": mesh.bootstrap_servers,
            "enable.idempotence": True,
            "batch.num.messages": 5,
            "linger.ms": 1,
            "retry.backoff.max.ms": 200,
        }
    )
    errors: list[object] = []
    for number in range(3_000):
        producer.produce(
            topic,
            str(number),
            partition=0,
            headers=list(header(number)),
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )
        if number == 1_500:
            producer.poll(0.05)
            cluster.kill()
            cluster.restart()
        producer.poll(0)
    assert producer.flush(120) == 0
    assert not errors
    assert [number for _, number in stored(cluster, topic)] == [each for each in range(3_000) if is_kept(each)]


def transactional(mesh: RelayMesh, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": mesh.bootstrap_servers, "transactional.id": name, "linger.ms": 1})
    producer.init_transactions(60)
    return producer


def send(producer: Producer, topic: str, begin: int, count: int) -> None:
    for number in range(begin, begin + count):
        producer.produce(topic, str(number), partition=0, headers=list(header(number)))


def test_transactions_with_and_without_records(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    """A transaction whose records are all dropped commits like any other."""
    topic = "regions-transactions"
    cluster.create_topic(topic, 1)
    producer = transactional(mesh, "regions")
    for begin, count, commits in ((0, 10, True), (1, 2, True), (20, 10, False), (4, 2, True), (30, 10, True)):
        producer.begin_transaction()
        send(producer, topic, begin, count)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.flush(60)
            producer.abort_transaction(60)
    expected = [number for number in (*range(10), *range(30, 40)) if is_kept(number)]
    assert [number for _, number in stored(cluster, topic)] == expected


def test_a_transaction_with_the_mesh_killed_is_aborted_or_whole(cluster: KafkaCluster, tmp_path: Path) -> None:
    topic = "regions-mesh-killed"
    cluster.create_topic(topic, 1)
    mesh = RelayMesh(tmp_path, cluster.bootstrap_servers, interceptors=[FILTER])
    try:
        producer = transactional(mesh, "killed")
        committed: list[int] = []
        aborted = 0
        for at in range(6):
            begin = at * 30
            while True:
                producer.begin_transaction()
                try:
                    send(producer, topic, begin, 20)
                    producer.flush(60)
                    if at in (2, 4) and not aborted >= at // 2:
                        mesh.kill()
                        mesh.restart()
                    send(producer, topic, begin + 20, 10)
                    producer.commit_transaction(60)
                except KafkaException as problem:
                    assert problem.args[0].txn_requires_abort(), problem
                    producer.abort_transaction(60)
                    aborted += 1
                    continue
                committed += range(begin, begin + 30)
                break
        assert aborted == 2, "the sequences in front were not known any more"
        assert [number for _, number in stored(cluster, topic)] == [each for each in committed if is_kept(each)]
    finally:
        mesh.kill()


def test_an_idempotent_producer_loses_nothing_while_the_mesh_dies(cluster: KafkaCluster, tmp_path: Path) -> None:
    """The Java producer. After each kill the mesh does not know its state; it continues with a new epoch. Batches
    without an answer may be stored twice (docs/interceptors.md)."""
    topic, count, keys = "sampled", 4_000, 17
    cluster.create_topic(topic, 3)
    half = {"name": "half", "type": "sample", "topics": [topic], "on": ["produce"], "config": {"part": 0.5}}
    mesh = RelayMesh(tmp_path, cluster.bootstrap_servers, interceptors=[half])
    feed = Feed(bootstrap_servers=mesh.bootstrap_servers, client_id="fed", topic=topic, count=count, rate=400)
    output = tmp_path / "producer.out"
    producer = ChildProcess([*producer_of(Client.JAVA), feed.to_json()], log=tmp_path / "producer.log", stdout=output)
    try:
        for part in (0.2, 0.5):
            eventually(f"{part:.0%} is acknowledged", lambda: output.read_bytes().count(b"\n") >= part * count)  # noqa: B023
            mesh.kill()
            mesh.restart()
        assert producer.wait(180) == 0, producer.log_tail()
        assert output.read_bytes().count(b"\n") == count
    finally:
        producer.kill()
        mesh.kill()
    found: dict[int, set[int]] = {}
    for each in stored_upstream(cluster, topic):
        number = int(each.record.id.rpartition("-")[2])
        found.setdefault(number % keys, set()).add(number)
    assert 0 < len(found) < keys, "a part of the keys is kept"
    assert found == {key: set(range(key, count, keys)) for key in found}
