"""What the upstream group has assigned to one consumer, and how far each partition is read.

librdkafka's callbacks only note what they are told and assign nothing. The partitions are *opened* between two polls:
positions are asked for, the start of a new group is committed, reading begins. So a request that fails is made again
(librdkafka goes on with offsets of its own when a callback fails, and throws away the messages of that consume()), and
no consume() brings messages from before and after an assignment.

Two families of assignors: eager ones revoke everything in each rebalance, and most of it comes straight back;
cooperative ones take and give single partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import Assigned, AssignedPartition, EngineEvent, Lost, PositionReset, Revoked

REQUEST_TIMEOUT = 5.0
SAME_FALL = 30.0
"""Seconds within which offsets that fall back and another topic id are taken for one event."""


class Assignment:
    """Everything runs on the consumer's thread.

    positions: of each partition that is open, the next upstream offset.
    """

    def __init__(
        self,
        cluster: ClusterName,
        start: Literal["earliest", "latest"],
        cooperative: bool,
        put: Callable[[EngineEvent], None],
    ) -> None:
        self.cooperative = cooperative
        self.positions: dict[UpstreamPartition, int] = {}
        self._cluster = cluster
        self._start = start
        self._put = put
        self._unopened: set[UpstreamPartition] | None = None
        """Assigned and not open; None when no assignment waits to be opened."""
        self._fallen: dict[UpstreamPartition, float] = {}
        """When offsets of a partition fell back."""
        self._kept: dict[UpstreamPartition, int] = {}
        """Positions of what an eager rebalance has revoked."""

    # What librdkafka calls

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assigned = self._sources(partitions)
        if self.cooperative:
            self._unopened = assigned | (self._unopened or set())
            consumer.incremental_assign([])
        else:
            # What is not in this generation was somebody else's for a while, whatever comes after.
            self._unopened = assigned
            self._kept = {source: at for source, at in self._kept.items() if source in assigned}
            consumer.assign([])

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._sources(partitions) if self.cooperative else set(self.positions)
        if not self.cooperative:
            self._kept.update(self.positions)
        self._drop(consumer, gone)
        self._put(Revoked(tuple(sorted(gone))))

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {*self.positions, *self._kept, *(self._unopened or ())}
        self._kept = {}
        self._drop(consumer, gone)
        self._put(Lost(tuple(sorted(gone))))

    # What the thread calls

    @property
    def is_waiting(self) -> bool:
        """Whether partitions are to be opened."""
        return self._unopened is not None

    def open(self, consumer: Consumer) -> None:
        """Begin to read what was assigned. Raises KafkaException; then it is to be tried again."""
        if self._unopened is None:
            return
        opening = sorted(self._unopened)
        whole = sorted({*opening, *self.positions})
        committed = self._committed(consumer, whole)
        ends = _offsets(consumer, whole, OFFSET_END)
        fresh = [source for source in opening if source not in committed]
        starts = ends if self._start == "latest" else _offsets(consumer, fresh, OFFSET_BEGINNING)
        for source in fresh:
            start = starts[source]
            if isinstance(start, KafkaError):
                raise KafkaException(start)
            committed[source] = CommitPosition(start)
        _commit(consumer, {source: committed[source] for source in fresh})
        assigned: list[AssignedPartition] = []
        for source in whole:
            position = self.positions.get(source, self._kept.get(source))
            stored, end = committed.get(source, CommitPosition(position or 0)), ends[source]
            # Whoever had it in between has committed further: what we know of it is old.
            resumed = position is not None and stored.offset <= position and source not in fresh
            start = position if resumed and position is not None else stored.offset
            assigned.append(
                AssignedPartition(source, start, stored, resumed, None if isinstance(end, KafkaError) else end)
            )
        new = [_topic_partition(each.partition, each.start) for each in assigned if each.partition in self._unopened]
        if self.cooperative:
            consumer.incremental_assign(new)
        else:
            consumer.assign(new)
        self._unopened, self._kept = None, {}
        self.positions = {each.partition: each.start for each in assigned}
        self._put(Assigned(tuple(assigned)))

    def rewind(self, consumer: Consumer) -> None:
        """Read on from the positions: messages that were taken out of librdkafka have got lost."""
        for source, position in self.positions.items():
            consumer.seek(_topic_partition(source, position))

    def fell_back(self, source: UpstreamPartition, now: float) -> None:
        """Its offsets fell back, and it is read from there: it need not begin anew once more."""
        self._fallen[source] = now

    def begin_anew(self, consumer: Consumer, topic: TopicName, now: float) -> None:
        """This topic is another one than before, though its name is the same. Partitions whose new logs are not longer
        than their positions were have fallen back by themselves; of the others only this tells."""
        known = {source for source, at in self._fallen.items() if now - at < SAME_FALL}
        sources = [source for source in self.positions if source.topic == topic and source not in known]
        self._fallen = {source: at for source, at in self._fallen.items() if source.topic != topic}
        starts = _offsets(consumer, sources, OFFSET_BEGINNING)
        for source, start in starts.items():
            if isinstance(start, KafkaError):
                raise KafkaException(start)
            self.positions[source] = start
            consumer.seek(_topic_partition(source, start))
            self._put(PositionReset(source, start, "the topic was deleted and made anew"))

    def forget(self) -> None:
        """The consumer is gone."""
        if gone := {*self.positions, *self._kept}:
            self._put(Lost(tuple(sorted(gone))))
        self.positions, self._kept, self._unopened = {}, {}, None

    def _drop(self, consumer: Consumer, gone: set[UpstreamPartition]) -> None:
        if self.cooperative:
            consumer.incremental_unassign([_topic_partition(source) for source in gone & self.positions.keys()])
            self._unopened = self._unopened and (self._unopened - gone or None)
        else:
            consumer.unassign()
            self._unopened = None
        self.positions = {source: at for source, at in self.positions.items() if source not in gone}

    def _committed(
        self, consumer: Consumer, sources: Iterable[UpstreamPartition]
    ) -> dict[UpstreamPartition, CommitPosition]:
        asked = [_topic_partition(source) for source in sources]
        answers = consumer.committed(asked, timeout=REQUEST_TIMEOUT) if asked else []
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return {
            UpstreamPartition(self._cluster, TopicName(each.topic), each.partition): CommitPosition(
                each.offset, each.metadata or "", -1 if each.leader_epoch is None else each.leader_epoch
            )
            for each in answers
            if each.offset >= 0
        }

    def _sources(self, partitions: list[TopicPartition]) -> set[UpstreamPartition]:
        return {UpstreamPartition(self._cluster, TopicName(each.topic), each.partition) for each in partitions}


def _offsets(
    consumer: Consumer, sources: Collection[UpstreamPartition], which: int
) -> dict[UpstreamPartition, int | KafkaError]:
    """The offsets at the beginning or the end of logs; one request for each broker. Raises KafkaException."""
    # ListOffsets has -1 and -2 for timestamps that mean the end and the beginning; librdkafka passes them on.
    asked = [_topic_partition(source, which) for source in sources]
    answers = consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT) if asked else []
    found = {(each.topic, each.partition): each.error or each.offset for each in answers}
    return {source: found[source.topic, source.partition] for source in sources}


def _commit(consumer: Consumer, positions: dict[UpstreamPartition, CommitPosition]) -> None:
    """Store where a new group begins, at once: one that dies before its first commit must not begin elsewhere next
    time. The coordinator has answered just now; so this one waits for it."""
    if not positions:
        return
    offers = [_topic_partition(source, position.offset) for source, position in positions.items()]
    for answer in consumer.commit(offsets=offers, asynchronous=False) or []:
        if answer.error is not None:
            raise KafkaException(answer.error)


def _topic_partition(source: UpstreamPartition, offset: int = OFFSET_BEGINNING) -> TopicPartition:
    return TopicPartition(source.topic, source.partition, offset)


def topic_partitions(sources: Iterable[UpstreamPartition]) -> list[TopicPartition]:
    return [TopicPartition(source.topic, source.partition) for source in sources]
