"""The thread that reads spans again, beside the pool's consumer and outside its group."""

from __future__ import annotations

import queue
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mesh.records.spans import ClusterName, Span, UpstreamPartition
from mesh.upstream.engine import EngineEvent, Reread
from mesh.upstream.events import EventChannel
from mesh.upstream.properties import Properties
from mesh.upstream.runs import batches_of, offset_of, size_of

PIECE_BYTES = 256 << 10
MOST_MESSAGES = 500
MOST_UNDELIVERED = 64
POLL = 0.1
GIVE_UP = 15.0
"""Seconds without any progress after which a span is reported as not readable now."""


class ReaderThread(threading.Thread):
    """Reads one span after the other."""

    def __init__(self, cluster: ClusterName, properties: Properties, channel: EventChannel[EngineEvent]) -> None:
        super().__init__(name=f"reader of {properties['group.id']} on {cluster}", daemon=True)
        self._properties = properties
        self._channel = channel
        self._spans: queue.SimpleQueue[tuple[UpstreamPartition, Span] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()

    def read(self, partition: UpstreamPartition, span: Span) -> None:
        """From any thread."""
        self._spans.put((partition, span))

    def stop(self) -> None:
        """From any thread: deliver nothing more, and end."""
        self._stopping.set()
        self._spans.put(None)

    def run(self) -> None:
        consumer: Consumer | None = None
        while (wanted := self._spans.get()) is not None and not self._stopping.is_set():
            partition, span = wanted
            try:
                consumer = consumer or Consumer(dict(self._properties))
                _Reading(consumer, partition, span, self._channel).read(self._stopping)
            except KafkaException as problem:
                self._channel.put(Reread(partition, span, (), True, problem.args[0].str()))
        if consumer is not None:
            consumer.close()


class _Reading:
    """One span that is being read."""

    def __init__(
        self, consumer: Consumer, partition: UpstreamPartition, span: Span, channel: EventChannel[EngineEvent]
    ) -> None:
        self._consumer = consumer
        self._partition = partition
        self._span = span
        self._channel = channel
        self._piece: list[Message] = []
        self._size = 0
        self._next = span.first

    def read(self, stopping: threading.Event) -> None:
        """Raises KafkaException."""
        where = TopicPartition(self._partition.topic, self._partition.partition, self._span.first)
        self._consumer.assign([where])
        progress = time.monotonic()
        complaint = ""
        while not stopping.is_set():
            if len(self._channel) >= MOST_UNDELIVERED:
                stopping.wait(POLL)
                continue
            first = self._consumer.poll(POLL)
            for message in [] if first is None else [first, *self._consumer.consume(MOST_MESSAGES, 0)]:
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    progress = time.monotonic()
                    if error is not None or not self._add(message):
                        self._deliver(complete=True)
                        return
                else:
                    complaint = error.str()
            if time.monotonic() - progress > GIVE_UP:
                self._deliver(complete=True, error=complaint or f"nothing came within {GIVE_UP:g} s")
                return

    def _add(self, message: Message) -> bool:
        """Whether more is to come."""
        offset = offset_of(message)
        # A lower one: the log was cut off or made anew, and reading fell back to its beginning.
        if not self._next <= offset <= self._span.last:
            return False
        self._next = offset + 1
        self._piece.append(message)
        self._size += size_of([message])
        if offset == self._span.last:
            return False
        if self._size >= PIECE_BYTES:
            self._deliver(complete=False)
        return True

    def _deliver(self, complete: bool, error: str = "") -> None:
        batches = tuple(batches_of(self._piece))
        self._piece, self._size = [], 0
        self._channel.put(Reread(self._partition, self._span, batches, complete, error))
