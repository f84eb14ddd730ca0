"""Dead letters, written to librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from mesh.records.batch import RecordBatch
from mesh.records.encode import encode_batch
from mesh.records.spans import TopicName
from mesh.tasks import OwnedTask, TaskName
from mesh.upstream.writers import dead_letters
from mesh.upstream.writers.dead_letters import DeadLetter, DeadLetterWriter
from tests.planted import Planting, plants
from tests.upstream.harness import TIMEOUT, new_name, run

ABOUT = {"offset": "7", "member": "größer"}
RECORD = (7, 1_700_000_000_123, b"key", None, [("trace", b"\xff\0"), ("trace", None)])


def letter(topic: str, ended: Callable[[str], None], batch: RecordBatch | None = None) -> DeadLetter:
    return DeadLetter(TopicName(topic), batch or encode_batch(7, [RECORD]), ABOUT, ended)


async def write(writer: DeadLetterWriter, topic: str, batch: RecordBatch | None = None) -> str:
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
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
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
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
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
        assert await write(writer, topic) == f"the topic {topic} does not exist, and create is false"
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
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


class UnreachableCluster:
    """The admin client of a cluster that is down. It fails when a test lets it. lists: the requests for topics.
    asked: set by the first one. thread: the one that asks."""

    def __init__(self) -> None:
        self.lists = 0
        self.asked = threading.Event()
        self.fails = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self, properties: Mapping[str, Any]) -> UnreachableCluster:
        return self

    def list_topics(self, timeout: float) -> None:
        self.lists += 1
        self.thread = threading.current_thread()
        self.asked.set()
        assert self.fails.wait(TIMEOUT)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> UnreachableCluster:
    cluster = UnreachableCluster()
    monkeypatch.setattr(dead_letters, "AdminClient", cluster)
    return cluster


def test_letters_that_wait_together_fail_together(unreachable: UnreachableCluster) -> None:
    """Each failure takes seconds, and later letters wait."""

    async def test() -> None:
        writer = DeadLetterWriter("127.0.0.1:1", {}, False, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as tasks:
            writes = [tasks.create_task(write(writer, "first"))]
            await asyncio.to_thread(unreachable.asked.wait, TIMEOUT)
            writes += [tasks.create_task(write(writer, topic)) for topic in ("first", "first", "second")]
            await asyncio.sleep(0)  # all of them have begun
            unreachable.fails.set()
        assert all("transport" in each.result() for each in writes)
        assert unreachable.lists == 2, "once for the first letter, and once for all others"
        writer.close()

    run(test)


def test_the_thread_ends_when_the_writer_is_closed_while_letters_wait(unreachable: UnreachableCluster) -> None:
    async def test() -> None:
        writer = DeadLetterWriter("127.0.0.1:1", {}, False, asyncio.get_running_loop())
        for _ in range(2):
            writer.write(letter("first", lambda _: None))
            await asyncio.to_thread(unreachable.asked.wait, TIMEOUT)
        writer.close()
        unreachable.fails.set()
        thread = unreachable.thread
        assert thread is not None
        await asyncio.to_thread(thread.join, TIMEOUT)
        assert not thread.is_alive()

    run(test)


class EmptyCluster:
    """The admin client of a cluster without topics. errors: of CreateTopics, by topic. created: the topics of each such
    request."""

    def __init__(self, errors: Mapping[str, int]) -> None:
        self.topics: dict[str, object] = {}
        self.errors = errors
        self.created: list[list[str]] = []

    def __call__(self, properties: Mapping[str, Any]) -> EmptyCluster:
        return self

    def list_topics(self, timeout: float) -> EmptyCluster:
        return self

    def create_topics(self, topics: Sequence[NewTopic], request_timeout: float) -> dict[str, Future[None]]:
        self.created.append([each.topic for each in topics])
        answers: dict[str, Future[None]] = {}
        for each in topics:
            answers[each.topic] = Future()
            if error := self.errors.get(each.topic):
                answers[each.topic].set_exception(KafkaException(KafkaError(error, each.topic)))
            else:
                answers[each.topic].set_result(None)
        return answers


def test_missing_topics_are_created(mock_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may create one first. One that is refused fails its own letters only."""

    async def test() -> None:
        made, taken, refused = (new_name(kind) for kind in ("made", "taken", "refused"))
        errors = {taken: KafkaError.TOPIC_ALREADY_EXISTS, refused: KafkaError.TOPIC_AUTHORIZATION_FAILED}
        cluster = EmptyCluster(errors)
        monkeypatch.setattr(dead_letters, "AdminClient", cluster)
        writer = DeadLetterWriter(mock_cluster, {}, True, asyncio.get_running_loop())
        assert [await write(writer, topic) for topic in (made, taken, refused, made)] == ["", "", refused, ""]
        assert cluster.created == [[made], [taken], [refused]]
        assert read_one(mock_cluster, taken).key() == b"key"
        writer.close()

    run(test)


@plants(TaskName.DEAD_LETTERS, at=(1,))
def test_an_exception_that_nobody_has_foreseen_is_told_with_its_cluster(mock_cluster: str, planting: Planting) -> None:
    async def test() -> None:
        topic, problem = new_name("dead"), planting.problem
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
        with planting.into_call() as reports:
            writer = DeadLetterWriter(mock_cluster, {}, False, asyncio.get_running_loop(), "eu")
            produce = writer._write
            writer._write = planting.throw  # type: ignore[method-assign]
            assert await write(writer, topic) == (str(problem) or repr(problem))
            writer._write = produce  # type: ignore[method-assign]
            assert await write(writer, topic) == ""
            writer.close()
            await asyncio.sleep(0)
        task = OwnedTask(TaskName.DEAD_LETTERS, cluster="eu")
        assert [(each, rest) for each, _, rest in reports.failures] == [(task, 0.0)]

    run(test)
