"""Writes the pages of the delivery journal to a topic of a cluster.

One thread encodes them and gives them to a librdkafka producer. It never blocks the event loop, and gives up pages that
the cluster does not store in time.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mesh.journal.pages import Page
from mesh.tasks import OwnedTask, TaskName, guarded
from mesh.thread_tasks import ThreadTask, failed_in_thread
from mesh.upstream.librdkafka_properties import connection_properties
from mesh.upstream.property_files import check_files
from mesh.upstream.renewed import Renewed

DELIVERY_TIMEOUT: Final = 30.0
REQUEST_TIMEOUT: Final = 10.0
LAST_FLUSH: Final = 5.0
"""Seconds for which closing waits for pages in flight."""
POLL: Final = 0.1
_SETTINGS: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": int(DELIVERY_TIMEOUT * 1000),
    "linger.ms": 5,
    "compression.type": "lz4",
    "statistics.interval.ms": 0,
    "enable.metrics.push": False,
}


@dataclass(frozen=True, slots=True)
class _Work:
    page: Page
    dropped: int
    dropped_since: int
    is_last: bool
    ended: Callable[[bool], None]


class JournalWriter:
    """The producer of journal pages. process, run: as in the pages. create: create a missing topic, with one partition.
    report: called on the event loop with the reason of a failed write, once until one succeeds."""

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        topic: str,
        create: bool,
        process: str,
        run: str,
        report: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._properties = {**connection_properties(properties), "bootstrap.servers": bootstrap_servers}
        self._topic = topic
        self._create = create
        self._process = process
        self._run = run
        self._report = report
        self._loop = loop
        self._task = ThreadTask(OwnedTask(TaskName.JOURNAL), loop)
        self._producers = Renewed(
            "journal", self._properties, lambda: Producer({**self._properties, **_SETTINGS}), _finish
        )
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._sequence = 0
        self._is_there = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._serve, name="journal", daemon=True)
        self._thread.start()

    def write(self, page: Page, dropped: int, dropped_since: int, is_last: bool, ended: Callable[[bool], None]) -> None:
        """Writes a page. Called on the event loop; returns at once."""
        self._work.put(_Work(page, dropped, dropped_since, is_last, ended))

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on."""
        self._producers.change_login(username, password)

    async def close(self) -> None:
        """Closes the writer; waits a few seconds for pages in flight."""
        self._work.put(None)
        await asyncio.to_thread(self._thread.join, LAST_FLUSH + 1)

    # The thread

    def _serve(self) -> None:
        producers = self._producers
        while True:
            work: _Work | None = None
            try:
                work = self._work.get(timeout=POLL)
                if work is None:
                    break
                producer = producers.get()
                self._find()
                self._produce(producer, work)
                self._task.works()
            except queue.Empty:
                _poll(producers.current)
            except (KafkaException, BufferError, ValueError) as problem:
                self._ended(work, _message_of(problem))
            except BaseException as problem:  # noqa: BLE001 - the thread writes the next pages
                self._task.failed(problem, 0.0)
                self._ended(work, repr(problem))
        if producers.current is not None:
            producers.current.flush(LAST_FLUSH)

    def _produce(self, producer: Producer, work: _Work) -> None:
        # A page that is not written leaves a gap in the sequence, which readers see.
        sequence, self._sequence = self._sequence, self._sequence + 1
        data = work.page.encode(self._process, self._run, sequence, work.dropped, work.dropped_since, work.is_last)

        def delivered(error: KafkaError | None, _: object) -> None:
            self._ended(work, "" if error is None else error.str())

        producer.produce(self._topic, data, self._run, timestamp=work.page.begun, on_delivery=delivered)
        producer.poll(0)

    def _find(self) -> None:
        """Checks that the topic exists, so that a produce request does not create it."""
        if self._is_there:
            return
        check_files(self._properties)
        admin = AdminClient(self._properties)
        if self._topic not in admin.list_topics(timeout=REQUEST_TIMEOUT).topics:
            if not self._create:
                raise ValueError(f"the topic {self._topic} does not exist, and create is false")
            _make(admin, self._topic)
        self._is_there = True

    def _ended(self, work: _Work | None, error: str) -> None:
        if work is None:
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(guarded(self._task.task, work.ended), not error)
            if error and not self._is_failing:
                self._loop.call_soon_threadsafe(guarded(self._task.task, self._report), error)
        self._is_failing = bool(error)


def _finish(producer: Producer) -> None:
    """Waits for the pages of a producer that was replaced. Pages that are not written by then have failed."""
    producer.flush(LAST_FLUSH)
    producer.purge()
    producer.flush(LAST_FLUSH)


def _poll(producer: Producer | None) -> None:
    """Calls the callbacks of pages that have been written."""
    try:
        if producer is not None:
            producer.poll(0)
    except Exception as problem:  # noqa: BLE001 - raised by a callback; the others are called all the same
        failed_in_thread(problem)


def _make(admin: AdminClient, topic: str) -> None:
    """Creates the topic, which another process may be creating at the same time. It has one partition: a journal is
    small, and its order is worth more."""
    try:
        wanted: Any = NewTopic(topic, num_partitions=1)
        admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT)[topic].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _message_of(problem: Exception) -> str:
    return problem.args[0].str() if isinstance(problem, KafkaException) else str(problem) or repr(problem)
