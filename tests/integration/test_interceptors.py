"""Interceptors in a relay of a real broker: answers to producers, records of consumers, and bytes that pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from struct import pack, unpack_from
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.records.golden import PLAIN
from tests.records.tails import tails

pytestmark = [
    pytest.mark.timeout(300),
]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 200
Found = list[tuple[int, bytes | None, list[tuple[str, bytes | None]]]]


@pytest.fixture(scope="module")
def cluster(kafka: KafkaCluster) -> KafkaCluster:
    return kafka


@pytest.fixture(scope="module")
def mesh(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    fetched, produced = {"on": ["fetch"]}, {"on": ["produce"]}
    mesh = RelayMesh(
        tmp_path_factory.mktemp("mesh"),
        cluster.bootstrap_servers,
        interceptors=[
            {
                "name": "cards",
                "type": "mask",
                "topics": ["customers*"],
                "config": {"paths": ["card"], "keep_last": 4},
                **fetched,
            },
            {
                "name": "only-eu",
                "type": "filter",
                "topics": ["regions*"],
                "config": {"header": "region", "equals": "eu"},
                **fetched,
            },
            {
                "name": "only-eu-in",
                "type": "filter",
                "topics": ["kept*"],
                "config": {"header": "region", "equals": "eu"},
                **produced,
            },
            {"name": "small", "type": "size", "topics": ["small*"], "config": {"maximum": "1KiB"}, **produced},
            {
                "name": "who",
                "type": "stamp",
                "topics": ["stamped*"],
                "config": {"headers": {"from": "{client_id}"}},
                **produced,
            },
        ],
    )
    yield mesh
    mesh.kill()


def produce(
    address: str, topic: str, records: Sequence[tuple[bytes, Sequence[tuple[str, bytes]]]], **properties: object
) -> list[KafkaError | None]:
    """Produces values with headers; returns the error of each record."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "client.id": "writer", **properties})
    errors: list[KafkaError | None] = []
    for value, headers in records:
        producer.produce(
            topic, value, partition=0, headers=list(headers), on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    return errors


def read(address: str, topic: str, until: int, **properties: object) -> Found:
    """Offsets, values and headers of its only partition, up to an offset at least."""
    own = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer({**own, **properties})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Found = []

    def more() -> bool:
        for message in consumer.consume(1_000, 0.5):
            assert message.error() is None, message.error()
            headers: Any = message.headers() or ()
            found.append((message.offset() or 0, message.value(), list(headers)))
        return bool(found) and found[-1][0] >= until

    eventually("the records", more, timeout=60)
    consumer.close()
    return found


def cards(count: int) -> list[tuple[bytes, Sequence[tuple[str, bytes]]]]:
    return [(json.dumps({"id": number, "card": f"4000-{number:012}"}).encode(), ()) for number in range(count)]


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_masked(cluster: KafkaCluster, mesh: RelayMesh, codec: str) -> None:
    topic = f"customers-{codec}"
    cluster.create_topic(topic, 1)
    assert set(produce(mesh.bootstrap_servers, topic, cards(COUNT), **{"compression.type": codec})) == {None}
    found = read(mesh.bootstrap_servers, topic, COUNT - 1)
    assert [offset for offset, _, _ in found] == list(range(COUNT))
    for number, (_, value, _) in enumerate(found):
        assert json.loads(value or b"") == {"id": number, "card": f"****{number:04}"}
    assert [value for _, value, _ in read(cluster.bootstrap_servers, topic, COUNT - 1)] == [
        value for value, _ in cards(COUNT)
    ], "the cluster has them as they were"


@pytest.mark.parametrize("codec", CODECS)
def test_gaps(cluster: KafkaCluster, mesh: RelayMesh, codec: str) -> None:
    topic = f"regions-{codec}"
    cluster.create_topic(topic, 1)
    records = [(str(number).encode(), [("region", b"eu" if number % 3 == 0 else b"us")]) for number in range(COUNT)]
    assert set(produce(cluster.bootstrap_servers, topic, records, **{"compression.type": codec})) == {None}
    kept = [number for number in range(COUNT) if number % 3 == 0]
    found = read(mesh.bootstrap_servers, topic, kept[-1])
    assert [(offset, value) for offset, value, _ in found] == [(number, str(number).encode()) for number in kept]


def test_what_is_dropped_whole_is_passed_over(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    topic = "regions-whole"
    cluster.create_topic(topic, 1)
    for begin in range(0, 100, 10):
        region = b"eu" if begin == 90 else b"us"
        records = [(str(number).encode(), [("region", region)]) for number in range(begin, begin + 10)]
        assert set(produce(cluster.bootstrap_servers, topic, records)) == {None}
    found = read(mesh.bootstrap_servers, topic, 99)
    assert [offset for offset, _, _ in found] == list(range(90, 100))
    records = [(b"nothing of this", [("region", b"us")])] * 10
    assert set(produce(cluster.bootstrap_servers, topic, records)) == {None}
    assert set(produce(cluster.bootstrap_servers, topic, [(b"last", [("region", b"eu")])])) == {None}
    assert read(mesh.bootstrap_servers, topic, 110)[-1][1] == b"last"


def test_refused(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    topic = "small"
    cluster.create_topic(topic, 1)
    errors = produce(mesh.bootstrap_servers, topic, [(b"x" * 2_000, ())])
    assert [error.code() for error in errors if error is not None] == [KafkaError.INVALID_RECORD]
    assert produce(mesh.bootstrap_servers, topic, [(b"x" * 1_000, ())]) == [None]
    found = read(cluster.bootstrap_servers, topic, 0)
    assert [(offset, value) for offset, value, _ in found] == [(0, b"x" * 1_000)]


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_stamped(cluster: KafkaCluster, mesh: RelayMesh, codec: str) -> None:
    topic = f"stamped-{codec}"
    cluster.create_topic(topic, 1)
    records = [(str(number).encode(), [("from", b"somebody else"), ("kept", b"1")]) for number in range(COUNT)]
    properties = {"compression.type": codec, "enable.idempotence": True}
    assert set(produce(mesh.bootstrap_servers, topic, records, **properties)) == {None}
    found = read(cluster.bootstrap_servers, topic, COUNT - 1)
    assert [(offset, value) for offset, value, _ in found] == [(n, str(n).encode()) for n in range(COUNT)]
    assert all(headers == [("kept", b"1"), ("from", b"writer")] for _, _, headers in found)


def test_transactions(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    topic = "stamped-in-transactions"
    cluster.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": mesh.bootstrap_servers, "transactional.id": "stamps"})
    producer.init_transactions(30)
    for name, is_kept in (("first", True), ("second", False), ("third", True)):
        producer.begin_transaction()
        producer.produce(topic, name, partition=0)
        if is_kept:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    found = read(mesh.bootstrap_servers, topic, 4)
    assert [value for _, value, _ in found] == [b"first", b"third"]


def test_aborted_records_are_not_shown(cluster: KafkaCluster, mesh: RelayMesh) -> None:
    topic = "customers-aborted"
    cluster.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "aborted"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"no JSON", partition=0)  # so that the interceptor would fail
    producer.flush(30)
    producer.abort_transaction(30)
    assert produce(cluster.bootstrap_servers, topic, cards(1)) == [None]
    assert [offset for offset, _, _ in read(mesh.bootstrap_servers, topic, 2)] == [2]


@pytest.mark.parametrize("name", ["small-tails", "kept-tails"])
def test_bytes_behind_a_batch_are_refused_as_by_a_broker(name: str, cluster: KafkaCluster, mesh: RelayMesh) -> None:
    """They never reach the broker: the mesh leaves out those that a broker ignores, and refuses the others. `kept` has
    an interceptor that may drop records."""
    cluster.create_topic(name, 1)
    known = [RawConnection(Endpoint.of(each)) for each in (cluster.bootstrap_servers, mesh.bootstrap_servers)]
    for tail, is_ignored in tails():
        records = PLAIN + tail
        topic = pack(">ih", 1, len(name)) + name.encode() + pack(">iii", 1, 0, len(records)) + records
        produce = pack(">hhih", ApiKey.PRODUCE, 3, 5, -1) + pack(">hhi", -1, -1, 10_000) + topic
        answers = [each.ask(produce) for each in known]
        codes = [each and unpack_from(">h", each, 18 + len(name))[0] for each in answers]
        assert codes == [0 if is_ignored else int(ErrorCode.CORRUPT_MESSAGE)] * 2, tail
    for each in known:
        each.close()
