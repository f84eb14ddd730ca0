"""Dead letters, written to librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from mesh.records.batch import Batch
from mesh.records.encode import encode_batch
from mesh.records.spans import TopicName
from mesh.upstream.writers.dead_letters import DeadLetter, DeadLetterWriter
from tests.upstream.harness import TIMEOUT, new_name, run

ABOUT = {"offset": "7", "member": "größer"}
RECORD = (7, 1_700_000_000_123, b"key", None, [("trace", b"\xff\0"), ("trace", None)])


def letter(topic: str, ended: Callable[[str], None], batch: Batch | None = None) -> DeadLetter:
    return DeadLetter(TopicName(topic), batch or encode_batch(7, [RECORD]), ABOUT, ended)


async def write(writer: DeadLetterWriter, topic: str, batch: Batch | None = None) -> str:
    answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    writer.write(letter(topic, answered.set_result, batch))
    async with asyncio.timeout(TIMEOUT):
        return await answered


def read_one(bootstrap_servers: str, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    message = consumer.poll(TIMEOUT)
    consumer.close()
    assert message is not None
    return message


def test_a_record_is_written_as_it_was_with_what_is_told_of_it(mock_cluster: str) -> None:
    async def test() -> None:
        topic = new_name("dead")
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # makes it
        writer = DeadLetterWriter(mock_cluster, {}, False, asyncio.get_running_loop())
        assert await write(writer, topic) == ""
        written = read_one(mock_cluster, topic)
        assert (written.key(), written.value(), written.timestamp()[1]) == (b"key", None, RECORD[1])
        assert written.headers() == [
            ("trace", b"\xff\0"),
            ("trace", None),
            ("kafka-mesh.offset", b"7"),
            ("kafka-mesh.member", "größer".encode()),
        ]
        writer.close()

    run(test)


def test_a_damaged_batch_is_written_as_the_bytes_it_is(mock_cluster: str) -> None:
    async def test() -> None:
        topic = new_name("dead")
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # makes it
        writer = DeadLetterWriter(mock_cluster, {}, False, asyncio.get_running_loop())
        batch = encode_batch(7, [RECORD, (8, *RECORD[1:])])
        batch.data[-1] ^= 1
        assert await write(writer, topic, batch) == ""
        written = read_one(mock_cluster, topic)
        assert (written.key(), written.value()) == (None, bytes(batch.data))
        assert dict(written.headers() or ()) == {
            "kafka-mesh.offset": b"7",
            "kafka-mesh.member": "größer".encode(),
            "kafka-mesh.last-offset": b"8",
            "kafka-mesh.unreadable": b"its checksum is not that of its bytes",
        }
        writer.close()

    run(test)


def test_a_topic_that_is_not_there_is_not_made_unasked(mock_cluster: str) -> None:
    async def test() -> None:
        topic = new_name("nowhere")
        writer = DeadLetterWriter(mock_cluster, {}, False, asyncio.get_running_loop())
        assert await write(writer, topic) == f"the topic {topic} does not exist, and is not to be created"
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # makes it
        assert await write(writer, topic) == "", "it is looked for again"
        writer.close()

    run(test)


def test_properties_that_librdkafka_refuses_are_told() -> None:
    async def test() -> None:
        writer = DeadLetterWriter(
            "127.0.0.1:1", {"security.protocol": "carrier pigeon"}, False, asyncio.get_running_loop()
        )
        assert "security.protocol" in await write(writer, "t")
        assert "security.protocol" in await write(writer, "t"), "the thread lives on"
        writer.close()

    run(test)
