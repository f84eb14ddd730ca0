"""The thread that rereads spans, beside the pool's consumer and outside its group."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mesh.records.spans import ClusterName, Span, UpstreamPartition
from mesh.thread_tasks import failed_in_thread
from mesh.upstream.engine import EngineEvent, Reread, RereadToken
from mesh.upstream.events import EventChannel
from mesh.upstream.librdkafka.message_runs import batches_of, offset_of, size_of
from mesh.upstream.librdkafka_properties import Properties
from mesh.upstream.property_files import check_files

PIECE_BYTES = 256 << 10
MOST_MESSAGES = 500
MOST_UNDELIVERED = 64
POLL = 0.1
IDLE = 30.0
"""Seconds without a span to read after which the consumer is closed."""
REQUEST_TIMEOUT = 5.0
GIVE_UP = 15.0
"""Seconds without progress after which a span counts as unreadable for now."""
CROWDED = 3.0
"""The same while other spans wait. A span whose partition has no leader is tried again after them."""

_Wanted: TypeAlias = tuple[RereadToken, UpstreamPartition, Span]


class ReaderThread(threading.Thread):
    """A thread that reads one span after the other. It gives up a span without progress sooner while others wait."""

    def __init__(self, cluster: ClusterName, properties: Properties, channel: EventChannel[EngineEvent]) -> None:
        super().__init__(name=f"reader of {properties['group.id']} on {cluster}", daemon=True)
        self.properties = properties
        """Those of the consumer. Other ones hold from the next span on."""
        self._channel = channel
        self._spans: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self._stopping = threading.Event()

    def read(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        """Reads a span. May be called from any thread."""
        self._spans.put((token, partition, span))

    def stop(self) -> None:
        """Stops deliveries, and ends the thread. May be called from any thread."""
        self._stopping.set()
        self._spans.put(None)

    def _patience(self) -> float:
        return GIVE_UP if self._spans.empty() else CROWDED

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read_until_idle(self._spans.get())
            except BaseException as problem:  # noqa: BLE001 - the thread reads the next spans
                failed_in_thread(problem)

    def _read_until_idle(self, wanted: _Wanted | None) -> None:
        # A consumer that is not polled keeps its connections, and all its log lines. So an idle one is closed.
        consumer: Consumer | None = None
        made_of = self.properties
        while wanted is not None and not self._stopping.is_set():
            token, partition, span = wanted
            try:
                if consumer is not None and made_of is not self.properties:
                    consumer.close()
                    consumer = None
                made_of = self.properties
                if consumer is None:
                    check_files(made_of)
                    consumer = Consumer(dict(made_of))
                _Reading(consumer, token, partition, span, self._channel, self._patience).read(self._stopping)
            except KafkaException as problem:
                self._channel.put(Reread(partition, token, (), True, problem.args[0].str()))
            except BaseException as problem:  # noqa: BLE001 - reported to the pool, which tries again
                self._channel.put(Reread(partition, token, (), True, repr(problem)))
            try:
                wanted = self._spans.get(timeout=IDLE)
            except queue.Empty:
                wanted = None
        if consumer is not None:
            consumer.close()


class _Reading:
    """One span that is being read."""

    def __init__(
        self,
        consumer: Consumer,
        token: RereadToken,
        partition: UpstreamPartition,
        span: Span,
        channel: EventChannel[EngineEvent],
        patience: Callable[[], float] = lambda: GIVE_UP,
    ) -> None:
        self._consumer = consumer
        self._patience = patience
        self._token = token
        self._partition = partition
        self._span = span
        self._channel = channel
        self._piece: list[Message] = []
        self._size = 0
        self._next = span.first
        self._log_start = 0

    def read(self, stopping: threading.Event) -> None:
        """Reads the span, and delivers its end. Raises KafkaException."""
        self._consumer.assign([TopicPartition(self._partition.topic, self._partition.partition, self._span.first)])
        try:
            error = self._read(stopping)
        finally:
            self._consumer.unassign()
        self._deliver(complete=True, error=error)

    def _read(self, stopping: threading.Event) -> str:
        """Reads the span. Returns the reason why it ended early, "" if it did not."""
        progress = time.monotonic()
        complaint = ""
        while not stopping.is_set():
            if len(self._channel) >= MOST_UNDELIVERED:
                stopping.wait(POLL)
                continue
            first = self._consumer.poll(POLL)
            for message in [] if first is None else [first, *self._consumer.consume(MOST_MESSAGES, 0)]:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    complaint = error.str()
                    continue
                progress = time.monotonic()
                offset = offset_of(message)
                if offset > self._next == self._span.first:
                    self._look_for_log_start()  # the log may begin above the requested offset
                if offset > self._span.last:
                    return ""
                if error is not None or offset < self._next:
                    return self._reason_not_gone(max(offset, self._next))
                self._add(message)
                if offset == self._span.last:
                    return ""
            if time.monotonic() - progress > (patience := self._patience()):
                return complaint or f"nothing came within {patience:g} s"
        return ""

    def _reason_not_gone(self, position: int) -> str:
        """Returns why the rest of the span, from `position` on, may exist although reading ended or fell back. Returns
        "" if the log was truncated, or begins above it."""
        # A new leader does not know at first how far the log is committed. Consumers get an end below it, while a
        # request for the end gets an error until the leader knows (KIP-207).
        bounds = self._bounds()
        if bounds is None:
            return f"the log seemed to end at {position}, and no broker says where it does"
        low, high = bounds
        self._log_start = low
        if max(position, low) >= min(self._span.last + 1, high):
            return ""
        return f"the log seemed to end at {position}, and goes from {low} to {high}"

    def _bounds(self) -> tuple[int, int] | None:
        """Returns the start and the end of the log."""
        where = TopicPartition(self._partition.topic, self._partition.partition)
        bounds: tuple[int, int] | None = self._consumer.get_watermark_offsets(
            where, timeout=REQUEST_TIMEOUT, cached=False
        )
        return bounds

    def _look_for_log_start(self) -> None:
        bounds = self._bounds()
        self._log_start = bounds[0] if bounds is not None else 0

    def _add(self, message: Message) -> None:
        self._next = offset_of(message) + 1
        self._piece.append(message)
        self._size += size_of([message])
        if self._size >= PIECE_BYTES and self._next <= self._span.last:
            self._deliver(complete=False)

    def _deliver(self, complete: bool, error: str = "") -> None:
        batches = tuple(batches_of(self._piece))
        self._piece, self._size = [], 0
        self._channel.put(Reread(self._partition, self._token, batches, complete, error, self._log_start))
