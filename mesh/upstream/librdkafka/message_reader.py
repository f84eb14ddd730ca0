"""Turns messages into events: records by partition, ends of partitions, errors, and offsets that fall back."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, Message

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.engine import EndReached, EngineEvent, EventBatch, PositionReset, Received, Truncated
from mesh.upstream.librdkafka.message_runs import OffsetsFellBack, batches_of, offset_of
from mesh.upstream.librdkafka.positions.assigned_positions import AssignedPositions


class MessageReader:
    """A reader of a librdkafka consumer's messages into batches.

    complain: called with each error that librdkafka returns in place of a record. records_arrived: called with each
    topic of which something came. fell_back: called with each partition that is read from its very beginning again.
    """

    def __init__(
        self,
        cluster: ClusterName,
        assignment: AssignedPositions,
        put: Callable[[EngineEvent], None],
        complain: Callable[[KafkaError, TopicName], None],
        records_arrived: Callable[[TopicName], None],
        fell_back: Callable[[UpstreamPartition], None],
    ) -> None:
        self._cluster = cluster
        self._assignment = assignment
        self._put = put
        self._complain = complain
        self._records_arrived = records_arrived
        self._fell_back = fell_back
        self._sources: dict[tuple[str | None, int | None], UpstreamPartition] = {}
        self._events: list[Received | EndReached] = []

    def take(self, messages: list[Message]) -> None:
        try:
            self._sort(messages)
        finally:
            self._put_together()

    def _sort(self, messages: list[Message]) -> None:
        runs: dict[UpstreamPartition, list[Message]] = {}
        run: list[Message] = []
        topic = partition = None
        for message in messages:
            # Hot loop: consecutive records are mostly of the same partition.
            if message.partition() != partition or message.topic() != topic:
                topic, partition = message.topic(), message.partition()
                source = self._source(topic, partition)
                run = runs.setdefault(source, [])
            error = message.error()
            if error is None:
                run.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._records(source, run)
                self._end(source, offset_of(message))
                run.clear()
            else:
                self._complain(error, TopicName(topic or ""))
        for source, run in runs.items():
            self._records(source, run)

    def _put_together(self) -> None:
        if self._events:
            self._put(EventBatch(tuple(self._events)))
            self._events.clear()

    def _records(self, source: UpstreamPartition, messages: list[Message]) -> None:
        position = self._assignment.positions.get(source)
        if not messages or position is None:
            return
        try:
            batches = batches_of(messages)
        except OffsetsFellBack as fall:
            self._records(source, messages[: fall.index])
            self._records(source, messages[fall.index :])
            return
        first = batches[0].first
        if first < position:
            self._fall_back(source, first, f"offset {first} comes after {position - 1}")
        self._records_arrived(source.topic)
        self._assignment.positions[source] = batches[-1].last + 1
        self._events.append(Received(source, tuple(batches)))

    def _end(self, source: UpstreamPartition, end: int) -> None:
        position = self._assignment.positions.get(source)
        if position is None:
            return
        if end < position:
            self._fall_back(source, end, f"the end at {end} comes after {position - 1}")
        self._records_arrived(source.topic)
        self._assignment.positions[source] = end
        self._events.append(EndReached(source, end))

    def _fall_back(self, source: UpstreamPartition, start: int, reason: str) -> None:
        """Handles an offset below the position. librdkafka goes back to where an unclean election cut the log
        (KIP-320), or, if it does not know that, to the beginning: below, the log is the same, or empty. It does the
        same with a recreated topic that is shorter. The topic's id soon shows that it is a new topic, unless it is read
        from 0 anyway."""
        self._put_together()
        self._assignment.move(source, start)
        if start > 0:
            self._put(Truncated(source, start))
        else:
            self._fell_back(source)
            self._put(PositionReset(source, start, reason))

    def _source(self, topic: str | None, partition: int | None) -> UpstreamPartition:
        source = self._sources.get((topic, partition))
        if source is None:
            source = UpstreamPartition(self._cluster, TopicName(topic or ""), partition or 0)
            self._sources[topic, partition] = source
        return source
