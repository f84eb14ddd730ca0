"""The topic of the store, with two threads: one reads all of it and follows it, one serves the producer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from mesh.security.client_properties import TOKENS
from mesh.tasks import OwnedTask, TaskName
from mesh.thread_tasks import ThreadTask, failed_in_thread
from mesh.upstream.events import EventChannel
from mesh.upstream.librdkafka_log import LOG
from mesh.upstream.librdkafka_properties import connection_properties
from mesh.upstream.property_files import check_files
from mesh.upstream.renewed import Renewed

PARTITION: Final = 0
"""All documents are in one partition, so that all processes read them in one order."""
REQUEST_TIMEOUT: Final = 10.0
POLL: Final = 0.1
MOST_MESSAGES: Final = 500
POLICY_TIMEOUT: Final = 1.0
"""Seconds for which reading waits for the topic's cleanup policy; the policy is checked later, too."""
BACKOFF: Final = 1.0
"""Seconds until the next attempt after an error."""
DELIVERY_TIMEOUT: Final = 5.0
"""Seconds within which the cluster must store a document."""
LARGEST_DOCUMENT: Final = 8 << 20
"""The largest document in bytes. Topics take less: a megabyte, unless max.message.bytes allows more."""
_CUSTOMARY: Final = {"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1_000}
_ALWAYS: Final = {"statistics.interval.ms": 0, "enable.metrics.push": False}
_READER: Final = {
    "group.id": "kafka-mesh.store",  # librdkafka requires a group id; nothing joins or commits with it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "fetch.queue.backoff.ms": 10,
    "topic.metadata.refresh.interval.ms": 5_000,
}
_WRITER: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": int(DELIVERY_TIMEOUT * 1000),
    "request.timeout.ms": int(DELIVERY_TIMEOUT * 1000),
    "linger.ms": 0,
    "compression.type": "lz4",
    "message.max.bytes": LARGEST_DOCUMENT,
    "allow.auto.create.topics": False,
}


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The place of the store. properties: librdkafka's properties of the cluster. create: create a missing topic."""

    cluster: str
    bootstrap_servers: str
    properties: Mapping[str, Any]
    topic: str
    create: bool


@dataclass(frozen=True, slots=True)
class Began:
    """The event that reading starts at the beginning of the topic."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of the topic, in the order of offsets. value: None for a record that deletes the document."""

    key: bytes | None
    value: bytes | None
    offset: int


@dataclass(frozen=True, slots=True)
class ReadTo:
    """The event that everything in the store has been read. offset: the next offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The event that the topic cannot be read now; another attempt follows."""

    reason: str


StoreEvent: TypeAlias = Began | Stored | ReadTo | ReadFailed


class StoreTopic:
    """The two threads of the store. channel: takes the documents that they read."""

    def __init__(self, place: StorePlace, channel: EventChannel[StoreEvent]) -> None:
        """Raises KafkaException for properties that librdkafka refuses."""
        properties = {**_CUSTOMARY, **connection_properties(place.properties), **_ALWAYS}
        properties |= {"bootstrap.servers": place.bootstrap_servers, "logger": LOG.named(place.cluster, "store")}
        self._place = place
        self._properties = properties
        self._channel = channel
        self._task = ThreadTask(OwnedTask(TaskName.STORE, cluster=place.cluster), asyncio.get_running_loop())
        self._stopping = threading.Event()
        self._next = 0
        """The next offset to read."""
        # A producer that waits for a token blocks for seconds, so the writer thread creates it.
        self._producers = Renewed("store_writer", properties, lambda: Producer({**self._properties, **_WRITER}))
        self._consumers = Renewed(
            "store_reader", properties, lambda: Consumer({**self._properties, **_READER}), Consumer.close
        )
        self._producer = None if TOKENS in properties else self._producers.get()
        self._writing = threading.Lock()
        """Held while a document is given to the producer, and while the producer is replaced."""
        self._threads = [
            threading.Thread(target=target, name=f"store {name}", daemon=True)
            for name, target in (("reader", self._read), ("writer", self._poll))
        ]
        for thread in self._threads:
            thread.start()

    def write(self, key: bytes, value: bytes | None, ended: Callable[[KafkaError | None, int], None]) -> None:
        """Writes a document. ended: called on another thread with an error, or with the offset. Raises KafkaException
        or BufferError if it cannot even try."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            ended(error, -1 if error is not None else message.offset() or 0)

        with self._writing:
            if self._producer is None:
                raise KafkaException(KafkaError(KafkaError._STATE, "there is no token yet"))
            self._producer.produce(self._place.topic, value, key, partition=PARTITION, on_delivery=delivered)

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on. May be called from any thread."""
        self._producers.change_login(username, password)
        self._consumers.change_login(username, password)

    def stop(self) -> None:
        """Stops the threads. May be called from any thread."""
        self._task.ended()
        self._stopping.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    # The threads

    def _poll(self) -> None:
        while not self._stopping.is_set():
            try:
                self._renewed().poll(POLL)
                self._task.works()
            except KafkaException as problem:
                self._channel.put(ReadFailed(problem.args[0].str()))
                self._stopping.wait(BACKOFF)
            except BaseException as problem:  # noqa: BLE001 - such as that of a callback; later documents are written
                self._task.failed(problem, BACKOFF)
                self._stopping.wait(BACKOFF)
        if self._producer is not None:
            self._producer.flush(POLL)

    def _renewed(self) -> Producer:
        """Returns the producer. A new one takes its place when nothing waits at the old one: no document may overtake
        another."""
        made = self._producers.get()  # without the lock, since it may wait for a token
        with self._writing:
            if self._producer is None or len(self._producer) == 0:
                self._producer = made
            return self._producer

    def _read(self) -> None:
        while not self._stopping.is_set():
            try:
                check_files(self._properties)
                admin = AdminClient(self._properties)
                self._find(admin)
                self._follow(_Policy(admin, self._place.topic))
            except KafkaException as problem:
                self._channel.put(ReadFailed(problem.args[0].str()))
            except BaseException as problem:  # noqa: BLE001 - reported, and tried again
                if not isinstance(problem, ValueError):
                    failed_in_thread(problem)
                self._channel.put(ReadFailed(str(problem) or repr(problem)))
            self._stopping.wait(BACKOFF)

    def _find(self, admin: AdminClient) -> None:
        """Checks that the topic exists, or creates it. Raises ValueError for a missing topic."""
        topic = self._place.topic
        if topic not in admin.list_topics(timeout=REQUEST_TIMEOUT).topics:
            if not self._place.create:
                raise ValueError(f"the topic {topic} does not exist, and create is false")
            _make(admin, topic)

    def _follow(self, policy: _Policy) -> None:
        policy.check(POLICY_TIMEOUT)
        consumers = self._consumers
        consumer = consumers.get()
        try:
            place = TopicPartition(self._place.topic, PARTITION)
            bounds = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT, cached=False)
            assert bounds is not None, "it raises instead"
            self._next = bounds[0]
            consumer.assign([TopicPartition(self._place.topic, PARTITION, self._next)])
            self._channel.put(Began())
            while not self._stopping.is_set():
                policy.check(0)
                if (renewed := consumers.get()) is not consumer:
                    consumer = renewed
                    consumer.assign([TopicPartition(self._place.topic, PARTITION, self._next)])
                first = consumer.poll(POLL)
                for message in [] if first is None else [first, *consumer.consume(MOST_MESSAGES, 0)]:
                    self._take(message)
        finally:
            consumers.forget()
            consumer.close()

    def _take(self, message: Message) -> None:
        """Raises KafkaException."""
        error, offset = message.error(), message.offset()
        if error is None:
            key, value = message.key(), message.value()
            self._channel.put(Stored(_bytes(key), _bytes(value), offset or 0))
            self._next = (offset or 0) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._channel.put(ReadTo(offset or 0))
        else:
            raise KafkaException(error)


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _make(admin: AdminClient, topic: str) -> None:
    """Creates the topic, which another process may be creating at the same time."""
    wanted: Any = NewTopic(topic, num_partitions=1, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT)[topic].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


class _Policy:
    """The cleanup policy of the topic, as its cluster reports it."""

    def __init__(self, admin: AdminClient, topic: str) -> None:
        self._admin = admin  # must outlive its future, or the future never completes
        self._topic = topic
        resource = ConfigResource(ResourceType.TOPIC, topic)
        self._asked: Future[Any] = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT)[resource]
        self._is_checked = False

    def check(self, timeout: float) -> None:
        """Raises ValueError for a topic that would lose documents. Without an answer the policy counts as right: the
        mesh may lack the permission to read it."""
        if self._is_checked or (not timeout and not self._asked.done()):
            return
        try:
            entries = self._asked.result(timeout)
        except TimeoutError:
            return
        except KafkaException:
            entries = {}
        self._is_checked = True
        policy = entries["cleanup.policy"].value if "cleanup.policy" in entries else "compact"
        if policy != "compact":
            raise ValueError(f"the topic {self._topic} has cleanup.policy={policy}; set it to compact")
