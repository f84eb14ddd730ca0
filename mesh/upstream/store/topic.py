"""The topic of the store, as two threads know it: one that reads all of it and goes on reading, one that is told what
has been written."""

from __future__ import annotations

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

from mesh.upstream.events import EventChannel
from mesh.upstream.librdkafka_log import LOG
from mesh.upstream.librdkafka_properties import connection_properties

PARTITION: Final = 0
"""All documents are in one partition, so that all processes read them in one order."""
REQUEST_TIMEOUT: Final = 10.0
POLL: Final = 0.1
MOST_MESSAGES: Final = 500
POLICY_TIMEOUT: Final = 1.0
"""Seconds that reading waits for the cluster to say what the topic keeps; it is checked later, too."""
BACKOFF: Final = 1.0
"""Seconds until it is tried again, after something went wrong."""
DELIVERY_TIMEOUT: Final = 5.0
"""Seconds that the cluster has to take a document."""
LARGEST_DOCUMENT: Final = 8 << 20
"""Bytes; topics take less, a megabyte unless their max.message.bytes says otherwise."""
_CUSTOMARY: Final = {"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1_000}
_ALWAYS: Final = {"statistics.interval.ms": 0, "enable.metrics.push": False}
_READER: Final = {
    "group.id": "kafka-mesh.store",  # librdkafka wants one; nothing is committed to it, and nobody joins it
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
    """Where the store is. properties: librdkafka's, of the cluster. create: make the topic if it is not there."""

    cluster: str
    bootstrap_servers: str
    properties: Mapping[str, Any]
    topic: str
    create: bool


@dataclass(frozen=True, slots=True)
class Began:
    """The topic is read from its beginning."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of the topic, in the order of offsets. value: None for one that takes the document away."""

    key: bytes | None
    value: bytes | None
    offset: int


@dataclass(frozen=True, slots=True)
class ReadTo:
    """All that there was has been read. offset: the next one."""

    offset: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The topic cannot be read now; it is tried again."""

    reason: str


StoreEvent: TypeAlias = Began | Stored | ReadTo | Failed


class StoreTopic:
    """The two threads. channel: told what is read."""

    def __init__(self, place: StorePlace, channel: EventChannel[StoreEvent]) -> None:
        """Raises KafkaException for properties that librdkafka refuses."""
        properties = {**_CUSTOMARY, **connection_properties(place.properties), **_ALWAYS}
        properties |= {"bootstrap.servers": place.bootstrap_servers, "logger": LOG.named(place.cluster, "store")}
        self._place = place
        self._properties = properties
        self._channel = channel
        self._stopping = threading.Event()
        self._producer = Producer({**properties, **_WRITER})
        self._threads = [
            threading.Thread(target=target, name=f"store {name}", daemon=True)
            for name, target in (("reader", self._read), ("writer", self._poll))
        ]
        for thread in self._threads:
            thread.start()

    def write(self, key: bytes, value: bytes | None, ended: Callable[[KafkaError | None, int], None]) -> None:
        """ended: called on another thread with what went wrong, or with the offset. Raises KafkaException, BufferError
        for what is not even tried."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            ended(error, -1 if error is not None else message.offset() or 0)

        self._producer.produce(self._place.topic, value, key, partition=PARTITION, on_delivery=delivered)

    def stop(self) -> None:
        """From any thread."""
        self._stopping.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    # The threads

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(POLL)
        self._producer.flush(POLL)

    def _read(self) -> None:
        while not self._stopping.is_set():
            try:
                admin = AdminClient(self._properties)
                self._find(admin)
                self._follow(_Policy(admin, self._place.topic))
            except KafkaException as problem:
                self._channel.put(Failed(problem.args[0].str()))
            except Exception as problem:  # noqa: BLE001 - told, and tried again: the thread must live on
                self._channel.put(Failed(str(problem) or repr(problem)))
            self._stopping.wait(BACKOFF)

    def _find(self, admin: AdminClient) -> None:
        """Raises ValueError for a topic that is not there."""
        topic = self._place.topic
        if topic not in admin.list_topics(timeout=REQUEST_TIMEOUT).topics:
            if not self._place.create:
                raise ValueError(f"the topic {topic} does not exist, and is not to be created")
            _make(admin, topic)

    def _follow(self, policy: _Policy) -> None:
        policy.check(POLICY_TIMEOUT)
        consumer = Consumer({**self._properties, **_READER})
        try:
            place = TopicPartition(self._place.topic, PARTITION)
            bounds = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT, cached=False)
            assert bounds is not None, "it raises instead"
            consumer.assign([TopicPartition(self._place.topic, PARTITION, bounds[0])])
            self._channel.put(Began())
            while not self._stopping.is_set():
                policy.check(0)
                first = consumer.poll(POLL)
                for message in [] if first is None else [first, *consumer.consume(MOST_MESSAGES, 0)]:
                    self._take(message)
        finally:
            consumer.close()

    def _take(self, message: Message) -> None:
        """Raises KafkaException."""
        error, offset = message.error(), message.offset()
        if error is None:
            key, value = message.key(), message.value()
            self._channel.put(Stored(_bytes(key), _bytes(value), offset or 0))
        elif error.code() == KafkaError._PARTITION_EOF:
            self._channel.put(ReadTo(offset or 0))
        else:
            raise KafkaException(error)


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _make(admin: AdminClient, topic: str) -> None:
    """Another process may be making it too."""
    wanted: Any = NewTopic(topic, num_partitions=1, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT)[topic].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


class _Policy:
    """What the topic keeps of its records, as its cluster says."""

    def __init__(self, admin: AdminClient, topic: str) -> None:
        self._admin = admin  # must outlive its future, or that never ends
        self._topic = topic
        resource = ConfigResource(ResourceType.TOPIC, topic)
        self._asked: Future[Any] = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT)[resource]
        self._is_checked = False

    def check(self, timeout: float) -> None:
        """Raises ValueError for a topic that would lose documents. A cluster that does not say is believed: it may not
        be for us to know."""
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
            raise ValueError(f"the topic {self._topic} has cleanup.policy={policy}; only compact keeps every document")
