"""Writes dead letters to a topic of the cluster that has their records.

Each cluster has one thread, started with the first letter. Letters are rare, so it waits for each bundle, and reports
the outcome on the event loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mesh.records.batch import CorruptBatch, RecordBatch, is_intact
from mesh.records.decode import DecodedRecord, decode_records
from mesh.records.spans import TopicName
from mesh.tasks import OwnedTask, TaskName, guarded
from mesh.thread_tasks import ThreadTask
from mesh.upstream.librdkafka_properties import connection_properties
from mesh.upstream.renewed import Renewed

DELIVERY_TIMEOUT = 30.0
REQUEST_TIMEOUT = 10.0
UNANSWERED = "it was not answered in time"
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
    """One record to be dead-lettered.

    batch: holds this record alone. If it is damaged, its bytes are the value of the letter, and the header
        `kafka-mesh.unreadable` says why.
    about: headers of the letter beside the record's own.
    ended: called on the event loop with the reason of a failure, "" for success.
    """

    topic: TopicName
    batch: RecordBatch
    about: Mapping[str, str]
    ended: Callable[[str], None]


@dataclass(slots=True)
class _Outcome:
    error: str

    def delivered(self, error: KafkaError | None, _: Message) -> None:
        self.error = "" if error is None else error.str()


class DeadLetterWriter:
    """The producer of dead letters on one cluster. create: create a missing topic; otherwise its letters fail. cluster:
    the name of the cluster."""

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        create: bool,
        loop: asyncio.AbstractEventLoop,
        cluster: str = "",
    ) -> None:
        self._task = ThreadTask(OwnedTask(TaskName.DEAD_LETTERS, cluster=cluster), loop)
        self._properties = {**connection_properties(properties), "bootstrap.servers": bootstrap_servers}
        self._create = create
        self._loop = loop
        self._letters: queue.SimpleQueue[DeadLetter | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._present: set[TopicName] = set()

    def write(self, letter: DeadLetter) -> None:
        """Writes a letter. Called on the event loop; returns at once."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="dead letters", daemon=True)
            thread.start()  # raises RuntimeError if the system has no thread left; then the next letter tries again
            self._thread = thread
        self._letters.put(letter)

    def close(self) -> None:
        """Closes the writer. Records that are not written are not settled, and will be delivered again."""
        self._task.ended()
        self._letters.put(None)

    # The thread

    def _run(self) -> None:
        clients = Renewed("dead_letters", self._properties, self._made)
        is_closed = False
        while not is_closed:
            bundle, is_closed = self._next_bundle()
            if not bundle:
                return
            try:
                self._write(*clients.get(), bundle)
                self._task.works()
            except BaseException as problem:  # noqa: BLE001 - reported to the pools, which try again
                if not isinstance(problem, KafkaException):
                    self._task.failed(problem, 0.0)
                for each in bundle:
                    self._report(each, _message_of(problem))

    def _made(self) -> tuple[AdminClient, Producer]:
        return AdminClient(self._properties), Producer({**self._properties, **_DURABLE})

    def _next_bundle(self) -> tuple[list[DeadLetter], bool]:
        """Waits for a letter. Returns all letters that are there by then, and whether the writer is closed."""
        bundle: list[DeadLetter] = []
        letter = self._letters.get()
        with suppress(queue.Empty):
            while letter is not None:
                bundle.append(letter)
                letter = self._letters.get_nowait()
        return bundle, letter is None

    def _write(self, admin: AdminClient, producer: Producer, bundle: Sequence[DeadLetter]) -> None:
        missing = self._find(admin, {letter.topic for letter in bundle})
        outcomes = [(letter, _Outcome(missing.get(letter.topic, UNANSWERED))) for letter in bundle]
        for letter, outcome in outcomes:
            if letter.topic in missing:
                continue
            try:
                _produce(producer, letter, outcome)
            except (KafkaException, BufferError, CorruptBatch, ValueError) as problem:
                outcome.error = _message_of(problem)
        producer.flush(DELIVERY_TIMEOUT)
        for letter, outcome in outcomes:
            if outcome.error:
                self._present.discard(letter.topic)
            self._report(letter, outcome.error)

    def _find(self, admin: AdminClient, topics: Set[TopicName]) -> dict[TopicName, str]:
        """Checks that topics exist, so that a produce request does not create them. Returns a reason for each that does
        not. Asks once for all of them: a cluster that is down takes `REQUEST_TIMEOUT` for each request."""
        absent = topics - self._present
        if not absent:
            return {}
        try:
            absent -= admin.list_topics(timeout=REQUEST_TIMEOUT).topics.keys()
        except KafkaException as problem:
            return dict.fromkeys(absent, _message_of(problem))
        if self._create:
            missing = _make(admin, absent)
        else:
            missing = {topic: f"the topic {topic} does not exist, and create is false" for topic in absent}
        self._present |= topics - missing.keys()
        return missing

    def _report(self, letter: DeadLetter, error: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(guarded(self._task.task, letter.ended), error)


def _make(admin: AdminClient, topics: Set[TopicName]) -> dict[TopicName, str]:
    """Creates topics, which another process of the pool may be creating at the same time. Returns a reason for each
    that could not be created."""
    failed: dict[TopicName, str] = {}
    requests = [NewTopic(topic) for topic in topics]
    made = admin.create_topics(requests, request_timeout=REQUEST_TIMEOUT) if requests else {}
    for topic, answer in made.items():
        try:
            answer.result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                failed[TopicName(topic)] = _message_of(problem)
    return failed


def _produce(producer: Producer, letter: DeadLetter, outcome: _Outcome) -> None:
    details = dict(letter.about)
    try:
        record = _record(letter.batch)
    except CorruptBatch as problem:
        details |= {"last-offset": str(letter.batch.last), "unreadable": str(problem)}
        record = DecodedRecord(letter.batch.first, -1, False, None, bytes(letter.batch.data), ())
    about = [(f"kafka-mesh.{name}", value.encode()) for name, value in details.items()]
    timestamp: dict[str, Any] = {"timestamp": record.timestamp} if record.timestamp >= 0 else {}
    producer.produce(
        letter.topic,
        record.value,
        record.key,
        headers=[*record.headers, *about],
        on_delivery=outcome.delivered,
        **timestamp,
    )


def _record(batch: RecordBatch) -> DecodedRecord:
    if not is_intact(batch):
        raise CorruptBatch("its checksum is not that of its bytes")
    return next(record for record in decode_records(batch) if batch.first <= record.offset <= batch.last)


def _message_of(problem: BaseException) -> str:
    return problem.args[0].str() if isinstance(problem, KafkaException) else str(problem) or repr(problem)
