"""The thread that reads spans again, beside the pool's consumer and outside its group."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mesh.records.spans import ClusterName, Span, UpstreamPartition
from mesh.upstream.engine import Reread
from mesh.upstream.runs import batches_of, offset_of

PIECE_BYTES = 256 << 10
MOST_MESSAGES = 500
POLL = 0.1
GIVE_UP = 15.0
"""Seconds without any progress after which a span is reported as not readable now."""


class ReaderThread(threading.Thread):
    """Reads one span after the other. `deliver` is called on this thread."""

    def __init__(
        self, cluster: ClusterName, properties: Mapping[str, str | int | bool], deliver: Callable[[Reread], None]
    ) -> None:
        super().__init__(name=f"reader of {properties['group.id']} on {cluster}", daemon=True)
        self._properties = properties
        self._deliver = deliver
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
        consumer = Consumer(dict(self._properties))
        while (wanted := self._spans.get()) is not None and not self._stopping.is_set():
            partition, span = wanted
            try:
                self._read(consumer, partition, span)
            except KafkaException as problem:
                self._deliver(Reread(partition, span, (), True, str(problem.args[0])))
        consumer.close()

    def _read(self, consumer: Consumer, partition: UpstreamPartition, span: Span) -> None:
        consumer.assign([TopicPartition(partition.topic, partition.partition, span.first)])
        piece: list[Message] = []
        size = 0
        progressed = time.monotonic()
        while not self._stopping.is_set():
            complete = error = False
            for message in consumer.consume(MOST_MESSAGES, POLL):
                problem = message.error()
                if problem is None:
                    progressed = time.monotonic()
                    if offset_of(message) > span.last:
                        complete = True
                        break
                    piece.append(message)
                    size += len(message)
                    complete = offset_of(message) == span.last
                elif problem.code() == KafkaError._PARTITION_EOF:
                    complete = True
                if complete:
                    break
            error = not complete and time.monotonic() - progressed > GIVE_UP
            if complete or error or size >= PIECE_BYTES:
                reason = f"nothing came within {GIVE_UP:g} s" if error else ""
                self._deliver(Reread(partition, span, tuple(batches_of(piece)), complete or error, reason))
                piece, size = [], 0
            if complete or error:
                break
        consumer.unassign()
