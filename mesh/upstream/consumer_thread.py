"""The thread that owns the consumer of a pool on one cluster."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    CommitPosition,
    Committed,
    CommitToken,
    EndReached,
    EngineEvent,
    Lost,
    PositionReset,
    Received,
    Revoked,
    SourceDown,
    SourceUp,
)
from mesh.upstream.events import EventChannel
from mesh.upstream.runs import batches_of, offset_of

log = structlog.get_logger(__name__)

EAGER_POLL = 0.0015
IDLE_POLL = 0.05
MOST_MESSAGES = 500
LONG_IDLE = 5.0
"""Seconds without consuming after which the partitions are paused, so that polling can go on."""
REQUEST_TIMEOUT = 10.0
REBALANCE_IN_PROGRESS = 27
UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)

Ended = asyncio.Future[Mapping[UpstreamPartition, int]]


class ConsumerThread(threading.Thread):
    """Everything but `command` and `start` runs on this thread."""

    def __init__(
        self,
        cluster: ClusterName,
        properties: Mapping[str, str | int | bool],
        start: Literal["earliest", "latest"],
        channel: EventChannel[EngineEvent],
    ) -> None:
        super().__init__(name=f"consumer of {properties['group.id']} on {cluster}", daemon=True)
        self._cluster = cluster
        self._properties = properties
        self._start_at = start
        self._channel = channel
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._consumer: Consumer | None = None
        self._running = True
        self._eager = False
        self._consuming = True
        self._stopped_since = 0.0
        self._idled = False
        self._down = False
        self._positions: dict[UpstreamPartition, int] = {}
        """The next offset of each assigned partition."""
        self._kept: dict[UpstreamPartition, int] = {}
        """Positions of what was revoked in the rebalance that is under way."""
        self._paused: set[UpstreamPartition] = set()

    def command(self, command: Callable[[], None]) -> None:
        """From any thread: do this between two polls."""
        self._commands.put(command)

    # Commands

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        self._client.subscribe(
            sorted(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def set_consuming(self, consuming: bool) -> None:
        if consuming and self._idled:
            self._resume_librdkafka(set(self._positions) - self._paused)
            self._idled = False
        if not consuming and self._consuming:
            self._stopped_since = time.monotonic()
        self._consuming = consuming

    def set_eager(self, eager: bool) -> None:
        self._eager = eager

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        mine = partitions & self._positions.keys()
        self._paused |= mine
        self._client.pause([_topic_partition(source) for source in mine])

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        mine = partitions & self._positions.keys() & self._paused
        self._paused -= mine
        if not self._idled:
            self._resume_librdkafka(mine)

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        self._channel.put(Committed(token, self._commit(positions)))

    def stop(
        self, positions: Mapping[UpstreamPartition, CommitPosition], loop: asyncio.AbstractEventLoop, ended: Ended
    ) -> None:
        """Commit a last time, leave the group, end."""
        errors = self._commit(positions)
        self._leave()
        self._running = False

        def tell() -> None:
            if not ended.done():
                ended.set_result(errors)

        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell)

    # The thread

    @property
    def _client(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer

    def run(self) -> None:
        self._consumer = Consumer({**self._properties, "error_cb": self._on_error})
        while self._running:
            try:
                self._turn()
            except KafkaException as problem:
                self._report_down(str(problem.args[0]))
                time.sleep(IDLE_POLL)

    def _turn(self) -> None:
        wait = EAGER_POLL if self._eager else IDLE_POLL
        if self._consuming:
            self._take_commands(0)
            if self._running:
                self._handle(self._client.consume(MOST_MESSAGES, wait))
            return
        self._take_commands(wait)
        if not self._running or self._consuming:
            return
        if not self._idled and time.monotonic() - self._stopped_since > LONG_IDLE:
            self._client.pause([_topic_partition(source) for source in self._positions])
            self._idled = True
        if self._idled:
            message = self._client.poll(0)
            if message is not None:
                self._handle([message])

    def _take_commands(self, wait: float) -> None:
        try:
            command = self._commands.get(timeout=wait) if wait else self._commands.get_nowait()
            while True:
                command()
                command = self._commands.get_nowait()
        except queue.Empty:
            return

    def _handle(self, messages: list[Message]) -> None:
        by_partition: dict[UpstreamPartition, list[Message]] = {}
        for message in messages:
            error = message.error()
            source = UpstreamPartition(self._cluster, TopicName(message.topic() or ""), message.partition() or 0)
            if error is None:
                by_partition.setdefault(source, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._flush(by_partition, source)
                if source in self._positions:
                    end = offset_of(message)
                    self._channel.put(EndReached(source, end))
                    self._positions[source] = max(self._positions[source], end)
            else:
                self._on_error(error)
        for source in list(by_partition):
            self._flush(by_partition, source)

    def _flush(self, by_partition: dict[UpstreamPartition, list[Message]], source: UpstreamPartition) -> None:
        messages = by_partition.pop(source, None)
        position = self._positions.get(source)
        if not messages or position is None:
            return
        start = offset_of(messages[0])
        if start < position:
            if self._is_valid(source, position):
                messages = [message for message in messages if offset_of(message) >= position]
            else:
                self._channel.put(PositionReset(source, start, f"offset {start} follows {position - 1}"))
        if messages:
            self._report_up()
            self._positions[source] = offset_of(messages[-1]) + 1
            self._channel.put(Received(source, tuple(batches_of(messages))))

    def _is_valid(self, source: UpstreamPartition, position: int) -> bool:
        """Whether the log has our position: then what came again is only a repetition."""
        low, high = self._client.get_watermark_offsets(_topic_partition(source), REQUEST_TIMEOUT, cached=False)
        return bool(low <= position <= high)

    # Rebalances

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        sources = [self._source(item) for item in partitions]
        committed = self._committed(consumer, partitions)
        fresh: dict[UpstreamPartition, int] = {}
        assigned: list[AssignedPartition] = []
        for source in sources:
            kept, stored = self._kept.get(source), committed.get(source)
            if stored is None:
                stored = fresh[source] = self._first_position(consumer, source)
            resumed = kept is not None and stored <= kept and source not in fresh
            start = kept if kept is not None and resumed else stored
            assigned.append(AssignedPartition(source, start, CommitPosition(stored), resumed))
        self._kept = {}
        self._paused.clear()
        self._idled = False
        self._positions = {item.partition: item.start for item in assigned}
        if fresh:
            # A member that dies before its first commit must not make the group begin somewhere else.
            consumer.commit(
                offsets=[_topic_partition(source, offset) for source, offset in fresh.items()], asynchronous=False
            )
        consumer.assign([_topic_partition(item.partition, item.start) for item in assigned])
        self._report_up()
        self._channel.put(Assigned(tuple(assigned)))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._kept = dict(self._positions)
        self._positions = {}
        self._channel.put(Revoked(tuple(self._kept)))
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lost = tuple(self._positions)
        self._kept, self._positions = {}, {}
        self._channel.put(Lost(lost))
        consumer.unassign()

    def _committed(self, consumer: Consumer, partitions: list[TopicPartition]) -> dict[UpstreamPartition, int]:
        answers = consumer.committed(partitions, timeout=REQUEST_TIMEOUT) if partitions else []
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return {self._source(answer): answer.offset for answer in answers if answer.offset >= 0}

    def _first_position(self, consumer: Consumer, source: UpstreamPartition) -> int:
        low, high = consumer.get_watermark_offsets(_topic_partition(source), REQUEST_TIMEOUT, cached=False)
        return int(low if self._start_at == "earliest" else high)

    # How

    def _commit(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> dict[UpstreamPartition, int]:
        mine = {source: position for source, position in positions.items() if source in self._positions}
        errors = {source: REBALANCE_IN_PROGRESS for source in positions if source not in mine}
        if not mine:
            return errors
        offers = [
            TopicPartition(source.topic, source.partition, position.offset, position.metadata)
            for source, position in mine.items()
        ]
        try:
            for answer in self._client.commit(offsets=offers, asynchronous=False) or []:
                errors[self._source(answer)] = answer.error.code() if answer.error is not None else 0
        except KafkaException as problem:
            errors.update(dict.fromkeys(mine, problem.args[0].code()))
        return errors

    def _leave(self) -> None:
        # close() alone would not leave for a static member (KIP-345), and its partitions would wait for the session
        # to time out; unsubscribing does leave.
        with suppress(KafkaException):
            self._client.unsubscribe()
            deadline = time.monotonic() + 1.0
            while self._positions and time.monotonic() < deadline:
                self._client.poll(0.05)
        self._client.close()

    def _resume_librdkafka(self, sources: set[UpstreamPartition] | frozenset[UpstreamPartition]) -> None:
        if sources:
            self._client.resume([_topic_partition(source) for source in sources])

    def _source(self, item: TopicPartition) -> UpstreamPartition:
        return UpstreamPartition(self._cluster, TopicName(item.topic), item.partition)

    def _on_error(self, error: KafkaError) -> None:
        log.debug("librdkafka says", cluster=self._cluster, reason=error.str())
        if error.code() in UNREACHABLE:
            self._report_down(error.str())

    def _report_down(self, reason: str) -> None:
        if not self._down:
            self._down = True
            self._channel.put(SourceDown(reason))

    def _report_up(self) -> None:
        if self._down:
            self._down = False
            self._channel.put(SourceUp())


def _topic_partition(source: UpstreamPartition, offset: int = OFFSET_BEGINNING) -> TopicPartition:
    return TopicPartition(source.topic, source.partition, offset)
