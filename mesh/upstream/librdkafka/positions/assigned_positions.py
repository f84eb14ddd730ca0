"""What the upstream group has assigned to one consumer, and how far each partition is read.

librdkafka's callbacks only note what they are told and assign nothing. The partitions are *opened* between two polls
(`opening`): positions are asked for, the start of a new group is committed, reading begins. So a request that fails is
made again (librdkafka goes on with offsets of its own when a callback fails, and throws away the messages of that
consume()), and no consume() brings messages from before and after an assignment.

Two families of assignors: eager ones revoke everything in each rebalance, and most of it comes straight back;
cooperative ones take and give single partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

from confluent_kafka import Consumer, TopicPartition

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    EngineEvent,
    Lost,
    PositionReset,
    Revoked,
    Unopenable,
    Unopened,
)
from mesh.upstream.librdkafka.positions.bounds import LogBounds
from mesh.upstream.librdkafka.positions.opening import Opening, Store, Tried, topic_partition
from mesh.upstream.librdkafka.positions.renewal import Renewal

SAME_FALL = 30.0
"""Seconds within which offsets that fall back and another topic id are taken for one event."""


class AssignedPositions:
    """Everything runs on the consumer's thread.

    positions: of each partition that is open, the next upstream offset. bounds: makes one who asks for them. store: has
    the group store where partitions begin.
    """

    def __init__(
        self,
        cluster: ClusterName,
        start: Literal["earliest", "latest"],
        cooperative: bool,
        put: Callable[[EngineEvent], None],
        bounds: Callable[[], LogBounds],
        store: Store,
    ) -> None:
        self.cooperative = cooperative
        self.positions: dict[UpstreamPartition, int] = {}
        self._cluster = cluster
        self._put = put
        self._opening = Opening(cluster, start, bounds(), store)
        self._renewal = Renewal(bounds())
        self._told: Mapping[UpstreamPartition, Unopenable] = {}
        """What was told to be assigned and not open."""
        self._committed: dict[UpstreamPartition, CommitPosition] = {}
        """What the group had committed when a partition was opened, or a rebalance ended."""
        self._fallen: dict[UpstreamPartition, float] = {}
        """When offsets of a partition fell back."""
        self._kept: dict[UpstreamPartition, int] = {}
        """Positions of what an eager rebalance has revoked."""
        self._reached: dict[UpstreamPartition, int] = {}
        """How far partitions were read before their logs were cut or began anew. What the group has committed may be of
        that time still, and is no other member's."""

    # What librdkafka calls

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assigned = self._sources(partitions)
        if self.cooperative:
            self._opening.assign(assigned | self._opening.unopened)
            consumer.incremental_assign([])
        else:
            # What is not in this generation was somebody else's for a while, whatever comes after.
            self._opening.assign(assigned)
            self._kept = {source: at for source, at in self._kept.items() if source in assigned}
            consumer.assign([])

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._sources(partitions) if self.cooperative else set(self.positions)
        if not self.cooperative:
            self._kept.update(self.positions)
        self._drop(consumer, gone)
        if self.cooperative:
            self._tell_unopened()  # else the assignment that follows tells
        self._put(Revoked(tuple(sorted(gone))))

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {*self.positions, *self._kept, *self._opening.unopened}
        self._kept, self._reached = {}, {}
        self._renewal.keep_only(())
        self._drop(consumer, gone)
        self._tell_unopened()
        self._put(Lost(tuple(sorted(gone))))

    # What the thread calls

    @property
    def assigned(self) -> Collection[UpstreamPartition]:
        """All of it, open or not."""
        return self.positions.keys() | self._opening.unopened

    @property
    def is_opening(self) -> bool:
        """Whether something is being asked just now, or is to be."""
        return self._opening.is_trying or self._opening.is_new

    def open(self, consumer: Consumer, now: float) -> bool:
        """Go on to open what is not; whether an assignment was told. Raises KafkaException if the group does not
        answer; it is asked again."""
        tried = self._opening.look(consumer, self.positions, now)
        if tried is None:
            return False
        if tried.is_first:
            self._tell_unopened()  # before it: what is missing there is not another's
        if is_told := tried.is_first or bool(tried.opened):
            self._read(consumer, tried)
        self._tell_unopened()
        return is_told

    def _read(self, consumer: Consumer, tried: Tried) -> None:
        self._committed.update(tried.committed)
        whole = sorted({*tried.opened, *self.positions})
        assigned = [self._assigned(source, tried) for source in whole]
        # In an eager group all of it, though most of it may be read already: there is no other way.
        new = [each for each in assigned if each.partition in tried.opened or not self.cooperative]
        assign = consumer.incremental_assign if self.cooperative else consumer.assign
        assign([topic_partition(each.partition, each.start) for each in new])
        self.positions = {each.partition: each.start for each in assigned}
        resumed = {each.partition for each in assigned if each.resumed}
        self._renewal.keep_only(resumed)
        self._reached = {source: at for source, at in self._reached.items() if source in resumed}
        self._committed = {source: self._committed[source] for source in whole if source in self._committed}
        self._kept = {}
        self._put(Assigned(tuple(assigned)))

    def _assigned(self, source: UpstreamPartition, tried: Tried) -> AssignedPartition:
        position = self.positions.get(source, self._kept.get(source))
        stored = self._committed.get(source, CommitPosition(position or 0))
        # Whoever had it in between has committed further: what we know of it is old. Nobody had what stayed open.
        is_ours = not tried.is_first and source in self.positions
        resumed = position is not None and (is_ours or stored.offset <= max(position, self._reached.get(source, 0)))
        start = position if resumed and position is not None else stored.offset
        return AssignedPartition(source, start, stored, resumed, tried.ends.get(source))

    def _tell_unopened(self) -> None:
        """If it is not known."""
        if self._told != self._opening.failed:
            self._told = self._opening.failed
            self._put(Unopened(self._told))

    def move(self, source: UpstreamPartition, position: int) -> None:
        """It is read up to there, by whomever; also back, where its log was cut or began anew."""
        before = self.positions.get(source)
        if before is None:
            return
        if position < before:
            self._reached[source] = max(before, self._reached.get(source, 0))
        self.positions[source] = position

    def rewind(self, consumer: Consumer) -> None:
        """Read on from the positions: messages that were taken out of librdkafka have got lost."""
        for source, position in self.positions.items():
            consumer.seek(topic_partition(source, position))

    def fell_back(self, source: UpstreamPartition, now: float) -> None:
        """Its offsets fell back, and it is read from there: it need not begin anew once more."""
        self._fallen[source] = now
        self._renewal.drop(source)

    def begin_anew(self, topic: TopicName, now: float) -> None:
        """This topic is another one than before, though its name is the same. Partitions whose new logs are not longer
        than their positions were have fallen back by themselves; of the others only this tells."""
        self._opening.begin_anew(topic)
        known = {source for source, at in self._fallen.items() if now - at < SAME_FALL}
        self._renewal.add(source for source in self.positions if source.topic == topic and source not in known)
        self._fallen = {source: at for source, at in self._fallen.items() if source.topic != topic}

    def renew(self, consumer: Consumer, now: float) -> None:
        """Read those from their beginning for which `begin_anew` was called, as soon as it is known where that is."""
        for source, start in self._renewal.begins(self.positions, now).items():
            self.move(source, start)
            consumer.seek(topic_partition(source, start))
            self._put(PositionReset(source, start, "the topic was deleted and made anew"))

    def forget(self) -> None:
        """The consumer is gone."""
        if gone := {*self.positions, *self._kept}:
            self._put(Lost(tuple(sorted(gone))))
        self.positions, self._kept, self._reached = {}, {}, {}
        self._opening.forget()
        self._renewal.keep_only(())
        self._tell_unopened()

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
