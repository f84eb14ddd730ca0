"""The partitions that the upstream group has assigned to one consumer, and how far each is read.

librdkafka's callbacks only record the assignment; they assign nothing. The partitions are *opened* between two polls
(`opening`): it looks up their positions, commits the start of a new group, and then begins to read. So a failed request
is repeated. (After a failed callback librdkafka continues with its own offsets, and drops the messages of that
consume().) And no consume() brings messages from before and after an assignment.

There are two families of assignors. Eager ones revoke everything in each rebalance, and most of it comes straight back.
Cooperative ones revoke and assign single partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import Consumer, TopicPartition

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    EngineEvent,
    Lost,
    PositionReset,
    Revoked,
    Start,
    Unopenable,
    Unopened,
)
from mesh.upstream.librdkafka.positions.bounds import LogBounds
from mesh.upstream.librdkafka.positions.opening import Opening, OpeningResult, StoreStarts, topic_partition
from mesh.upstream.librdkafka.positions.recreated_partitions import RecreatedPartitions

SAME_FALL = 30.0
"""Seconds within which an offset that falls back and a new topic id count as one event."""


class AssignedPositions:
    """The positions of the assigned partitions; everything runs on the consumer's thread.

    positions: the next upstream offset of each open partition. bounds: makes an object that looks up bounds of logs.
    store: commits start positions to the group.
    """

    def __init__(
        self,
        cluster: ClusterName,
        start: Start,
        cooperative: bool,
        put: Callable[[EngineEvent], None],
        bounds: Callable[[], LogBounds],
        store: StoreStarts,
    ) -> None:
        self.cooperative = cooperative
        self.positions: dict[UpstreamPartition, int] = {}
        self._cluster = cluster
        self._put = put
        self._opening = Opening(cluster, start, bounds(), store)
        self._recreated = RecreatedPartitions(bounds())
        self._reported: Mapping[UpstreamPartition, Unopenable] = {}
        """The partitions last reported as assigned and not open."""
        self._committed: dict[UpstreamPartition, CommitPosition] = {}
        """The group's commits when a partition was opened, or a rebalance ended."""
        self._fallen: dict[UpstreamPartition, float] = {}
        """The times at which offsets of partitions fell back."""
        self._kept: dict[UpstreamPartition, int] = {}
        """Positions of partitions that an eager rebalance revoked."""
        self._reached: dict[UpstreamPartition, int] = {}
        """The positions of partitions before their logs were truncated or created again. The group's commit may still
        date from then, and is not another member's."""

    # Called by librdkafka

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assigned = self._sources(partitions)
        if self.cooperative:
            self._opening.assign(assigned | self._opening.unopened)
            consumer.incremental_assign([])
        else:
            # Partitions that are not in this generation belong to other members, even if they come back later.
            self._opening.assign(assigned)
            self._kept = {source: at for source, at in self._kept.items() if source in assigned}
            consumer.assign([])

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._sources(partitions) if self.cooperative else set(self.positions)
        if not self.cooperative:
            self._kept.update(self.positions)
        self._drop(consumer, gone)
        if self.cooperative:
            self._report_unopened()  # otherwise the assignment that follows reports it
        self._put(Revoked(tuple(sorted(gone))))

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {*self.positions, *self._kept, *self._opening.unopened}
        self._kept, self._reached = {}, {}
        self._recreated.keep_only(())
        self._drop(consumer, gone)
        self._report_unopened()
        self._put(Lost(tuple(sorted(gone))))

    # Called by the thread

    @property
    def assigned(self) -> Collection[UpstreamPartition]:
        """All assigned partitions, open or not."""
        return self.positions.keys() | self._opening.unopened

    @property
    def is_opening(self) -> bool:
        """Returns whether a request about partitions is in progress, or must be made."""
        return self._opening.is_attempting or self._opening.is_new

    def open(self, consumer: Consumer, now: float) -> bool:
        """Continues to open partitions; returns whether an assignment was reported. Raises KafkaException if the group
        does not answer; the next call asks again."""
        result = self._opening.poll(consumer, self.positions, now)
        if result is None:
            return False
        if result.is_first:
            self._report_unopened()  # before `Assigned`, where a missing partition may be another member's
        if is_reported := result.is_first or bool(result.opened):
            self._read(consumer, result)
        self._report_unopened()
        return is_reported

    def _read(self, consumer: Consumer, result: OpeningResult) -> None:
        self._committed.update(result.committed)
        whole = sorted({*result.opened, *self.positions})
        assigned = [self._assigned(source, result) for source in whole]
        # An eager group must assign everything, even what is read already.
        new = [each for each in assigned if each.partition in result.opened or not self.cooperative]
        assign = consumer.incremental_assign if self.cooperative else consumer.assign
        assign([topic_partition(each.partition, each.start) for each in new])
        self.positions = {each.partition: each.start for each in assigned}
        resumed = {each.partition for each in assigned if each.resumed}
        self._recreated.keep_only(resumed)
        self._reached = {source: at for source, at in self._reached.items() if source in resumed}
        self._committed = {source: self._committed[source] for source in whole if source in self._committed}
        self._kept = {}
        self._put(Assigned(tuple(assigned)))

    def _assigned(self, source: UpstreamPartition, result: OpeningResult) -> AssignedPartition:
        position = self.positions.get(source, self._kept.get(source))
        stored = self._committed.get(source, CommitPosition(position or 0))
        # If another member had the partition in between, it has committed further, and our position is old. A partition
        # that stayed open had no other member.
        is_ours = not result.is_first and source in self.positions
        resumed = position is not None and (is_ours or stored.offset <= max(position, self._reached.get(source, 0)))
        start = position if resumed and position is not None else stored.offset
        return AssignedPartition(source, start, stored, resumed, result.ends.get(source))

    def _report_unopened(self) -> None:
        """Reports the partitions that cannot be opened yet, unless the same were reported last."""
        if self._reported != self._opening.failed:
            self._reported = self._opening.failed
            self._put(Unopened(self._reported))

    def move(self, source: UpstreamPartition, position: int) -> None:
        """Notes the position of a partition, whichever reader read it. The position falls back if the log was truncated
        or started again."""
        before = self.positions.get(source)
        if before is None:
            if source in self._kept:  # something may have been committed since it was revoked
                self._kept[source] = max(position, self._kept[source])
            return
        if position < before:
            self._reached[source] = max(before, self._reached.get(source, 0))
        self.positions[source] = position

    def rewind(self, consumer: Consumer) -> None:
        """Seeks librdkafka back to the positions, after messages taken out of it got lost."""
        for source, position in self.positions.items():
            consumer.seek(topic_partition(source, position))

    def fell_back(self, source: UpstreamPartition, now: float) -> None:
        """Notes that the offsets of a partition fell back, and that reading continues there. A new topic id need not
        reset it once more."""
        self._fallen[source] = now
        self._recreated.drop(source)

    def topic_recreated(self, topic: TopicName, now: float) -> None:
        """Starts a topic again that was recreated under its name. Partitions with shorter logs have fallen back
        already; for the rest the id is the only sign."""
        self._opening.topic_recreated(topic)
        known = {source for source, at in self._fallen.items() if now - at < SAME_FALL}
        self._recreated.add(source for source in self.positions if source.topic == topic and source not in known)
        self._fallen = {source: at for source, at in self._fallen.items() if source.topic != topic}

    def seek_recreated(self, consumer: Consumer, now: float) -> None:
        """Seeks partitions for which `topic_recreated` was called to their start, as soon as it is known."""
        for source, start in self._recreated.find_starts(self.positions, now).items():
            self.move(source, start)
            consumer.seek(topic_partition(source, start))
            self._put(PositionReset(source, start, "the topic was deleted and created again"))

    def forget(self) -> None:
        """Forgets all positions, since the consumer is gone."""
        if gone := {*self.positions, *self._kept}:
            self._put(Lost(tuple(sorted(gone))))
        self.positions, self._kept, self._reached = {}, {}, {}
        self._opening.forget()
        self._recreated.keep_only(())
        self._report_unopened()

    def _drop(self, consumer: Consumer, gone: set[UpstreamPartition]) -> None:
        if self.cooperative:
            consumer.incremental_unassign([topic_partition(source) for source in gone & self.positions.keys()])
            self._opening.revoke(gone)
        else:
            consumer.unassign()
            self._opening.forget()
        self.positions = {source: at for source, at in self.positions.items() if source not in gone}

    def _sources(self, partitions: list[TopicPartition]) -> set[UpstreamPartition]:
        return {UpstreamPartition(self._cluster, TopicName(each.topic), each.partition) for each in partitions}


def topic_partitions(sources: Iterable[UpstreamPartition]) -> list[TopicPartition]:
    return [TopicPartition(source.topic, source.partition) for source in sources]
