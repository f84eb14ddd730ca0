"""Records arrive as they were written: keys, values, headers, times, all codecs; and the engine does not wait for
records that do not exist."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from mesh.records.batch import seal
from mesh.records.encode import PlainRecord, encode_batch
from mesh.records.runs import singles
from mesh.records.spans import CommitPosition, Gap, Span
from mesh.upstream.engine import EndReached, EngineName, PositionReset, Received
from tests.integration.kafka import KafkaCluster
from tests.upstream.harness import engine, new_name, produce, run, source

KEYS = (b"key", b"", None)
VALUES = (b"value", b"", None, bytes(range(256)) * 8)
HEADERS: tuple[list[tuple[str, str | bytes | None]], ...] = (
    [],
    [("trace", b"1"), ("trace", None), ("trace", b""), ("größe", b"\xff\x00")],
)

BOTH = pytest.mark.parametrize("reads_with", ["raw", "librdkafka"])


@pytest.mark.smoke
@BOTH
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_values_headers_and_times(kafka: KafkaCluster, reads_with: EngineName, codec: str) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    written: list[tuple[Any, ...]] = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "compression.codec": codec,
            "linger.ms": 50,
            "batch.size": 9_000,
            "enable.idempotence": True,  # otherwise a repeated record would come behind later ones
        }
    )
    for key in KEYS:
        for value in VALUES:
            for headers in HEADERS:
                timestamp = 1_700_000_000_000 - len(written) * 977  # they decrease
                written.append((len(written), timestamp, False, key, value, tuple(headers)))
                producer.produce(topic, value, key, headers=headers, timestamp=timestamp)
    assert producer.flush(30) == 0

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            await running.ends()
            read = [
                (each.offset, each.timestamp, each.log_append_time, each.key, each.value, each.headers)
                for each in running.records(topic)
            ]
            assert read == written

    run(test)


@BOTH
def test_log_append_times(kafka: KafkaCluster, reads_with: EngineName) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    stored: dict[int, int] = {}

    def note(_: object, message: Any) -> None:
        stored[message.offset()] = message.timestamp()[1]

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0, "enable.idempotence": True})
    for number in range(30):
        producer.produce(topic, b"%d" % number, timestamp=1, on_delivery=note)
        if number % 3 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            await running.ends()
            records = running.records(topic)
            assert all(record.log_append_time for record in records)
            assert {record.offset: record.timestamp for record in records} == stored
            assert len(set(stored.values())) > 1

    run(test)


@pytest.mark.smoke
@BOTH
def test_transactions(kafka: KafkaCluster, reads_with: EngineName) -> None:
    """The engine skips aborted records and control records, and reaches the end behind them."""
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, b"%d" % number)
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            await running.ends()
            assert [record.value for record in running.records(topic)] == [
                b"%d" % number for number in (0, 2, 4) for _ in range(10)
            ]
            assert running.all(EndReached)[-1].offset == 66
            expected = Gap.EMPTY if reads_with == "raw" else Gap.UNKNOWN
            assert {each.gap for each in running.all(EndReached)} == {expected}
            assert {each.gap for each in running.all(Received)} == {expected}
            # The abort of the last transaction is at 65, and nothing of it remains to be read.
            pieces, again = await running.reread(source(topic), Span(40, 65))
            assert [batch.record_count for batch in again] == [10]
            assert pieces[-1].error == ""
            assert running.all(PositionReset) == []

    run(test)


@BOTH
def test_records_that_were_deleted_are_passed_over(kafka: KafkaCluster, reads_with: EngineName) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, 100)
    admin = kafka.admin()
    (done,) = admin.delete_records([TopicPartition(topic, 0, 40)]).values()
    done.result(30)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            assert (await running.assigned())[0].start == 40
            await running.ends()
            assert [record.offset for record in running.records(topic)] == list(range(40, 100))
            for span, left in ((Span(0, 39), []), (Span(30, 44), [40, 41, 42, 43, 44])):
                pieces, again = await running.reread(source(topic), span)
                assert pieces[-1].error == ""
                offsets = [offset for batch in again for offset in range(batch.first, batch.last + 1)]
                # Batches come whole; the caller cuts them.
                assert [offset for offset in offsets if span.first <= offset <= span.last] == left

    run(test)


@BOTH
def test_what_was_deleted_before_it_was_read_is_said_to_be(kafka: KafkaCluster, reads_with: EngineName) -> None:
    """Offsets between the group's commit and the present beginning of the log; librdkafka does not report them."""
    topic, group = new_name("topic"), new_name("group")
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, 100)

    async def store() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, reads_with=reads_with) as running:
            await running.ends()
            assert await running.commit({source(topic): CommitPosition(10)}) == {source(topic): 0}

    async def go_on() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, reads_with=reads_with) as running:
            assert (await running.assigned())[0].start == 10
            await running.until(lambda: len(running.records(topic)) == 60)
            assert [record.offset for record in running.records(topic)] == list(range(40, 100))
            told = [(event.offset, event.gap) for event in running.all(EndReached) if event.gap is Gap.DELETED]
            assert told == ([(40, Gap.DELETED)] if reads_with == "raw" else [])
            assert {each.gap for each in running.all(Received)} == {Gap.EMPTY if reads_with == "raw" else Gap.UNKNOWN}

    run(store)
    admin = kafka.admin()
    (done,) = admin.delete_records([TopicPartition(topic, 0, 40)]).values()
    done.result(30)
    run(go_on)


@BOTH
def test_a_big_record_is_a_batch_by_itself(kafka: KafkaCluster, reads_with: EngineName) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for size in (10, 900_000, 10, 10):
        producer.produce(topic, bytes(size))
    assert producer.flush(30) == 0

    async def test() -> None:
        async with engine(
            kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with, buffer_bytes=64 << 10
        ) as running:
            await running.ends()
            batches = [batch for event in running.all(Received) for run in event.batches for batch in singles(run)]
            big = next(batch for batch in batches if len(batch.data) > 900_000)
            # With the raw engine a producer's batch stays whole.
            assert (big.first, big.last) == ((0, 3) if reads_with == "raw" else (1, 1))
            assert [record.offset for record in running.records(topic)] == [0, 1, 2, 3]

    run(test)


@BOTH
def test_batches_above_the_size_of_a_fetch(kafka: KafkaCluster, reads_with: EngineName) -> None:
    """A broker answers with one such batch all the same: that of the first requested partition (KIP-74)."""
    topic = new_name("topic")
    kafka.create_topic(topic, 2, {"max.message.bytes": "8000000"})
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 8_000_000})
    for partition in (0, 1):
        for size in (3_000_000, 10, 2_000_000):
            producer.produce(topic, bytes(size), partition=partition)
            assert producer.flush(30) == 0

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            await running.ends(2)
            for partition in (0, 1):
                read = running.records(topic, partition)
                assert [(record.offset, len(record.value or b"")) for record in read] == [
                    (0, 3_000_000),
                    (1, 10),
                    (2, 2_000_000),
                ]

    run(test)


@BOTH
def test_a_long_span_comes_in_pieces(kafka: KafkaCluster, reads_with: EngineName) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    batches = {"linger.ms": 5, "batch.size": 16_000, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **batches})
    for _ in range(1_000):
        producer.produce(topic, bytes(1_000))
    assert producer.flush(30) == 0

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            await running.assigned()
            pieces, again = await running.reread(source(topic), Span(0, 999))
            assert len(pieces) >= 4
            assert all(sum(len(batch.data) for batch in piece.batches) < 300_000 for piece in pieces)
            firsts, lasts = [batch.first for batch in again], [batch.last for batch in again]
            assert firsts == [0, *(last + 1 for last in lasts[:-1])]
            assert lasts[-1] == 999

    run(test)


def test_a_header_name_that_is_not_utf_8_costs_the_headers_only(kafka: KafkaCluster) -> None:
    """confluent-kafka cannot read it, and no produced record may end the engine."""
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    records: list[PlainRecord] = [(number, 1, b"key", b"%d" % number, [("name", b"x")]) for number in range(200)]
    data = bytearray(encode_batch(0, records).data)  # enough of them for the interpreter to specialise its calls
    bad = {0, 100, 101, 199}
    at = 0
    for number in range(200):
        at = data.index(b"name", at + 1)
        if number in bad:
            data[at : at + 4] = b"\xff\xfe\xfd\xfc"
    seal(data)
    produce_batch(kafka.bootstrap_servers, topic, bytes(data))

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with="librdkafka") as running:
            await running.ends()
            assert [(record.value, record.headers) for record in running.records(topic)] == [
                (b"%d" % number, () if number in bad else (("name", b"x"),)) for number in range(200)
            ]

    run(test)


def produce_batch(bootstrap_servers: str, topic: str, batch: bytes) -> None:
    """Sends a batch as it is: Produce of version 3, which no client library lets a test write."""
    host, port = bootstrap_servers.split(":")
    name = struct.pack(">h", len(topic)) + topic.encode()
    partition = struct.pack(">iii", 1, 0, len(batch)) + batch
    request = struct.pack(">hhih4s", 0, 3, 1, 4, b"test") + struct.pack(">hhii", -1, -1, 5_000, 1) + name + partition
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.recv(4096)
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + len(name) + 4 + 4)
    assert error == 0
