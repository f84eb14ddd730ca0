"""What leases hold of the partitions of a pool, beside the members' windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.history import UNSENT, Cause
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.leases.acquire import acquire, obtainable
from mesh.pool.offsets.commits import Commits
from mesh.pool.offsets.metadata import size_of_leases
from mesh.pool.state.incarnations import shared
from mesh.pool.state.leases import HolderId, Lease, Leased, LeaseId, NoRoom, Range, holder_of, stored_leases
from mesh.pool.state.partition import Ownership, Partition
from mesh.pool.state.window import Delivery
from mesh.records.span_lists import apart, at_or_above, below, joined, within, without
from mesh.records.spans import Span, TopicName, UpstreamPartition

METADATA_SHARE = 0.5
"""The part of the metadata of a commit that leases may take."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a claim or an acknowledgement names of one partition, under one id of its topic.

    spans: those of the life that the lease is of, ascending, none overlapping. void: those that are of another one.
    takes: whether it may have what nobody holds of them.
    """

    partition: Partition
    topic_id: str | None
    spans: Sequence[Span]
    void: Sequence[Span]
    takes: bool

    def ranges(self, spans: Iterable[Span]) -> list[Range]:
        return [Range(self.partition.source, span, self.topic_id) for span in spans]


class HeldLeases:
    def __init__(self, settings: PoolSettings, topics: VirtualTopics, serving: Serving, commits: Commits) -> None:
        self._settings = settings
        self._topics = topics
        self._serving = serving
        self._commits = commits
        self._delivery_events = serving.delivery_events

    # Taking

    def hold(self, lease: Lease, partition: Partition, spans: Sequence[Span], now: float) -> None:
        """Take what nobody holds of these (ascending, none overlapping) for a lease."""
        taken = acquire(self._serving.distribution, partition, spans, now)
        for part, history in taken:
            partition.leased[part.first] = Leased(part, history, lease)
            self._delivery_events.add(
                DeliveryEventType.LEASED, partition.source, [part], holder_of(lease), history.count + 1
            )
        if taken:
            lease.lives[partition.source] = partition.life
        self._changed(partition)

    def name(self, lease: Lease, ranges: Iterable[Range], has_ended: bool) -> tuple[list[Named], list[Range]]:
        """What ranges mean to a lease, and those that are absent. has_ended: it holds nothing at the moment, and may
        have what nobody has taken since."""
        absent: list[Range] = []
        found: dict[tuple[Partition, str | None], list[Span]] = {}
        for each in ranges:
            partition = self._serving.partitions.get(each.partition)
            if partition is None or self._is_absent(lease, partition, each.topic_id):
                absent.append(each)
            else:
                found.setdefault((partition, each.topic_id), []).append(each.span)
        named = [
            self._name(lease, partition, topic_id, apart(spans), has_ended)
            for (partition, topic_id), spans in found.items()
        ]
        return named, absent

    def _name(
        self, lease: Lease, partition: Partition, topic_id: str | None, spans: list[Span], has_ended: bool
    ) -> Named:
        same = shared(lease.lives.get(partition.source), partition.life, topic_id)
        takes = has_ended or not same.is_certain
        return Named(partition, topic_id, below(spans, same.below), at_or_above(spans, same.below), takes)

    @staticmethod
    def _is_absent(lease: Lease, partition: Partition, topic_id: str | None) -> bool:
        """Also a partition that has just come, while nobody has said of which topic it is."""
        if partition.ownership is Ownership.UNASSIGNED:
            return True
        same = shared(lease.lives.get(partition.source), partition.life, topic_id)
        return topic_id is not None and not same.is_certain and partition.life.topic_id is None

    def has_no_room(self, lease: Lease, named: Iterable[Named], is_acknowledged: bool) -> NoRoom | None:
        """A partition whose commit metadata could not hold what is leased of it, if a claim or an acknowledgement was
        done."""
        held: dict[Partition, list[Span]] = {}
        for each in named:
            before = held.get(each.partition, self._spans_of(lease, each.partition))
            after = without(before, each.spans) if is_acknowledged else apart([*before, *self._free(each)])
            held[each.partition] = after
        for partition, spans in held.items():
            others = [leased for leased in partition.leased.values() if leased.lease is not lease]
            mine = [Leased(span, UNSENT, lease) for span in spans]
            size, before_that = (
                self._size(partition, [*others, *mine]),
                self._size(partition, partition.leased.values()),
            )
            if size > max(self._room(partition), before_that):
                return NoRoom(partition.source, len(joined(spans)))
        return None

    def take_again(self, lease: Lease, each: Named, now: float) -> None:
        """Hold what nobody holds of it, if that may be."""
        if free := self._free(each):
            self.hold(lease, each.partition, free, now)

    def outcome(self, lease: Lease, each: Named, is_settled_lost: bool) -> tuple[list[Range], list[Range]]:
        """done: held by the lease, or settled, unless that counts as lost; lost."""
        held = [entry.span for entry in each.partition.leased_in(each.spans) if entry.lease is lease]
        missing = without(each.spans if is_settled_lost else _unsettled(each), held)
        return each.ranges(without(each.spans, missing)), each.ranges([*missing, *each.void])

    # Giving back

    def settle(self, lease: Lease, each: Range) -> None:
        partition = self._serving.partitions[each.partition]
        for leased in partition.leased_in([each.span]):
            if leased.lease is not lease:
                continue
            del partition.leased[leased.span.first]
            for rest in without([leased.span], [each.span]):
                partition.leased[rest.first] = Leased(rest, leased.history, lease)
            for part in within([leased.span], [each.span]):
                partition.ledger.settle(part.first, part.last)
                self._delivery_events.add(DeliveryEventType.ACKNOWLEDGED, partition.source, [part], holder_of(lease))
            self._changed(partition)

    def give_back(self, lease: Lease, cause: Cause, now: float) -> None:
        """What it holds comes back: to the front of its partitions."""
        for partition in self.partitions_of(lease):
            mine = [leased for leased in partition.leased.values() if leased.lease is lease]
            for leased in mine:
                del partition.leased[leased.span.first]
                self._give_up(partition, leased, leased is mine[0] and cause is Cause.EXPIRED, cause, now)
            self._changed(partition)
            self._serving.distribute(partition, now)
            self._serving.rereads.pump(partition)

    def restore(self, lease: Lease, partition: Partition, spans: Iterable[Span]) -> None:
        """What a lease held of a partition that begins; its history is in `released_unread`."""
        for span, history in partition.released_unread.take(spans):
            partition.leased[span.first] = Leased(span, history, lease)
            lease.lives[partition.source] = partition.life
            self._delivery_events.add(
                DeliveryEventType.LEASED, partition.source, [span], holder_of(lease), history.count + 1
            )

    def changed(self, lease: Lease) -> None:
        """Something of it that is stored with each of its partitions."""
        for partition in self.partitions_of(lease):
            self._changed(partition)

    # What there is

    def are_elsewhere(self, lease: Lease, ranges: Iterable[Range]) -> bool:
        """Whether any of these is absent, or may be soon."""
        known = self._serving.partitions
        return any(
            (partition := known.get(each.partition)) is None
            or not partition.is_active
            or self._is_absent(lease, partition, each.topic_id)
            for each in ranges
        )

    def are_awaited(self, topics: Iterable[TopicName]) -> bool:
        """Whether it will be known soon to whom all partitions of these are assigned."""
        known = self._serving.partitions
        return any(
            (source not in known or known[source].is_awaited) and not self._commits.is_down(source.cluster)
            for topic in topics
            for source in self._topics.consumed(topic)
        )

    def are_unnamed(self, topics: Iterable[TopicName]) -> bool:
        """Whether the id of one of these will be known soon."""
        return any(each.is_active and each.life.topic_id is None for each in self.partitions(topics))

    def partitions(self, topics: Iterable[TopicName]) -> list[Partition]:
        """Those of this process that stand behind these topics."""
        found: dict[UpstreamPartition, Partition] = {}
        for topic in topics:
            for source in self._topics.partitions(topic):
                if source in self._serving.partitions:
                    found[source] = self._serving.partitions[source]
        return list(found.values())

    def partitions_of(self, lease: Lease) -> list[Partition]:
        """Those of which it holds something."""
        known = (self._serving.partitions.get(source) for source in lease.lives)
        return [
            partition
            for partition in known
            if partition is not None and any(leased.lease is lease for leased in partition.leased.values())
        ]

    def ranges(self, lease: Lease) -> Iterator[Range]:
        """What it holds."""
        for partition in self.partitions_of(lease):
            for span in self._spans_of(lease, partition):
                yield Range(partition.source, span, partition.life.topic_id or None)

    def has_room(self, partition: Partition, id: LeaseId, holder: HolderId, runs: int) -> bool:
        """Whether another lease of a partition could be stored, however its runs are cut."""
        if self._commits.is_down(partition.source.cluster):
            return False
        most = (len(id) + len(holder) + 20 + 10 * runs) * 4 // 3
        return self._size(partition, partition.leased.values()) + most <= self._room(partition)

    # How

    def _free(self, each: Named) -> list[Span]:
        """What of it nobody holds, if that may be taken."""
        return obtainable(each.partition, _unsettled(each)) if each.takes else []

    def _spans_of(self, lease: Lease, partition: Partition) -> list[Span]:
        return [leased.span for leased in partition.leased.values() if leased.lease is lease]

    def _room(self, partition: Partition) -> float:
        """Characters that leases may have of the metadata of a partition's commit."""
        return METADATA_SHARE * self._commits.metadata_limit(partition.source.cluster)

    def _size(self, partition: Partition, leased: Iterable[Leased]) -> int:
        """And those that these would have."""
        base = partition.ledger.committable
        return size_of_leases(base, stored_leases(leased, base, self._settings.epoch))

    def _give_up(self, partition: Partition, leased: Leased, is_first: bool, cause: Cause, now: float) -> None:
        """NEVER_FETCHED: as if it had never been leased, since nobody was told of it."""
        count = leased.history.count + 1
        self._delivery_events.note_release(cause, partition.source, [leased.span], holder_of(leased.lease), count)
        for span in partition.ledger.unsettled(leased.span.first, leased.span.last):
            parts = [(span, leased.history)]
            if cause is not Cause.NEVER_FETCHED:
                holder = leased.lease.holder
                parts = self._settings.redelivery.after_release(
                    span, leased.history, is_first, holder, cause, is_alone=False
                )
            read = []
            for part, history in parts:
                read += [(each, history) for each in below([part], partition.ledger.received)]
                for each in at_or_above([part], partition.ledger.received):
                    partition.released_unread.note(each, history)
            delivery = Delivery(0, span.first, span.last, None, leased.history)
            self._serving.releases.release_spans(partition, delivery, read, None, now)

    def _changed(self, partition: Partition) -> None:
        partition.ledger.leases_changed()
        self._serving.distribution.touched.add(partition)


def _unsettled(each: Named) -> list[Span]:
    ledger = each.partition.ledger
    return [part for span in each.spans for part in ledger.unsettled(span.first, span.last)]
