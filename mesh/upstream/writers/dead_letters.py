"""Writes dead letters to a topic of the cluster their records come from.

One thread per cluster, made with the first letter. Letters are rare; so each bundle is written and waited for, and what
became of it is told on the event loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mesh.records.batch import Batch, CorruptBatch, is_intact
from mesh.records.decode import Record, decode_records
from mesh.records.spans import TopicName
from mesh.upstream.librdkafka_properties import connection_properties

DELIVERY_TIMEOUT = 30.0
REQUEST_TIMEOUT = 10.0
_DURABLE = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": int(DELIVERY_TIMEOUT * 1000),
    "linger.ms": 5,
    "statistics.interval.ms": 0,
    "enable.metrics.push": False,
}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record that is given up.

    batch: holds this record alone; or it is damaged, and its bytes are the value of the letter, which says
    `unreadable`. about: what is told of it in headers, beside its own. ended: called on the event loop with
    why it failed, "" if it did not.
    """

    topic: TopicName
    batch: Batch
    about: Mapping[str, str]
    ended: Callable[[str], None]


@dataclass(slots=True)
class _Outcome:
    error: str = "it was not answered in time"

    def delivered(self, error: KafkaError | None, _: Message) -> None:
        self.error = "" if error is None else error.str()


class DeadLetterWriter:
    """The producer of dead letters on one cluster. create: make a topic that is not there; otherwise its letters
    fail."""

    def __init__(
        self, bootstrap_servers: str, properties: Mapping[str, str], create: bool, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._properties = {**connection_properties(properties), "bootstrap.servers": bootstrap_servers}
        self._create = create
        self._loop = loop
        self._letters: queue.SimpleQueue[DeadLetter | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._present: set[TopicName] = set()

    def write(self, letter: DeadLetter) -> None:
        """On the event loop; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="dead letters", daemon=True)
            self._thread.start()
        self._letters.put(letter)

    def close(self) -> None:
        """What was not written by now is not settled, and comes again."""
        self._letters.put(None)

    # The thread

    def _run(self) -> None:
        clients: tuple[AdminClient, Producer] | None = None
        while (letter := self._letters.get()) is not None:
            bundle = [letter]
            with suppress(queue.Empty):
                while (more := self._letters.get_nowait()) is not None:
                    bundle.append(more)
            try:
                clients = clients or (AdminClient(self._properties), Producer({**self._properties, **_DURABLE}))
                self._write(*clients, bundle)
            except Exception as problem:  # noqa: BLE001 - told to the pools, which try again; the thread must live on
                for each in bundle:
                    self._tell(each, _words(problem))

    def _write(self, admin: AdminClient, producer: Producer, bundle: Sequence[DeadLetter]) -> None:
        outcomes: list[tuple[DeadLetter, _Outcome]] = []
        for letter in bundle:
            outcome = _Outcome()
            outcomes.append((letter, outcome))
            try:
                self._find(admin, letter.topic)
                _produce(producer, letter, outcome)
            except (KafkaException, BufferError, CorruptBatch, ValueError) as problem:
                outcome.error = _words(problem)
        producer.flush(DELIVERY_TIMEOUT)
        for letter, outcome in outcomes:
            if outcome.error:
                self._present.discard(letter.topic)
            self._tell(letter, outcome.error)

    def _find(self, admin: AdminClient, topic: TopicName) -> None:
        """Brokers may be set to make topics when somebody produces to them; that is not asked for."""
        if topic in self._present:
            return
        if topic not in admin.list_topics(timeout=REQUEST_TIMEOUT).topics:
            if not self._create:
                raise ValueError(f"the topic {topic} does not exist, and is not to be created")
            _make(admin, topic)
        self._present.add(topic)

    def _tell(self, letter: DeadLetter, error: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(letter.ended, error)


def _make(admin: AdminClient, topic: TopicName) -> None:
    """Another process of the pool may be making it too."""
    try:
        admin.create_topics([NewTopic(topic)], request_timeout=REQUEST_TIMEOUT)[topic].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _produce(producer: Producer, letter: DeadLetter, outcome: _Outcome) -> None:
    told = dict(letter.about)
    try:
        record = _record(letter.batch)
    except CorruptBatch as problem:
        told |= {"last-offset": str(letter.batch.last), "unreadable": str(problem)}
        record = Record(letter.batch.first, -1, False, None, bytes(letter.batch.data), ())
    about = [(f"kafka-mesh.{name}", value.encode()) for name, value in told.items()]
    timestamp: dict[str, Any] = {"timestamp": record.timestamp} if record.timestamp >= 0 else {}
    producer.produce(
        letter.topic,
        record.value,
        record.key,
        headers=[*record.headers, *about],
        on_delivery=outcome.delivered,
        **timestamp,
    )


def _record(batch: Batch) -> Record:
    if not is_intact(batch):
        raise CorruptBatch("its checksum is not that of its bytes")
    return next(record for record in decode_records(batch) if batch.first <= record.offset <= batch.last)


def _words(problem: Exception) -> str:
    return problem.args[0].str() if isinstance(problem, KafkaException) else str(problem) or repr(problem)
