"""The spans that leases hold in the partitions of a pool, beside the windows of members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.history import UNSENT, Cause
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.leases.acquire import acquire, obtainable
from mesh.pool.offsets.commits import Commits
from mesh.pool.offsets.metadata import size_of_leases
from mesh.pool.state.incarnations import common_prefix
from mesh.pool.state.leases import HolderId, Lease, Leased, LeaseId, NoRoom, Range, holder_of, stored_leases
from mesh.pool.state.partition import Ownership, Partition
from mesh.pool.state.window import Delivery
from mesh.records.span_lists import at_or_above, below, disjoint, merge_adjacent, within, without
from mesh.records.spans import Span, TopicName, UpstreamPartition

METADATA_SHARE = 0.5
"""The part of a commit's metadata that leases may take."""


@dataclass(frozen=True, slots=True)
class ResolvedSpans:
    """The spans of one partition, with one topic id, in a claim or an acknowledgement. All are ascending, none
    overlapping.

    spans: those of the same incarnation of the log. void: those of another one. takes: whether free parts of `spans`
    may be taken.
    """

    partition: Partition
    topic_id: str | None
    spans: Sequence[Span]
    void: Sequence[Span]
    takes: bool

    def ranges(self, spans: Iterable[Span]) -> list[Range]:
        return [Range(self.partition.source, span, self.topic_id) for span in spans]


class HeldLeases:
    """The spans that the leases of one pool hold."""

    def __init__(self, settings: PoolSettings, topics: VirtualTopics, serving: Serving, commits: Commits) -> None:
        self._settings = settings
        self._topics = topics
        self._serving = serving
        self._commits = commits
        self._delivery_events = serving.delivery_events

    # Acquire

    def hold(self, lease: Lease, partition: Partition, spans: Sequence[Span], now: float) -> None:
        """Takes the free parts of these spans (ascending, none overlapping) for a lease."""
        taken = acquire(self._serving.distribution, partition, spans, now)
        for part, history in taken:
            partition.leased[part.first] = Leased(part, history, lease)
            self._delivery_events.add(
                DeliveryEventType.LEASED, partition.source, [part], holder_of(lease), history.count + 1
            )
        if taken:
            lease.incarnations[partition.source] = partition.incarnation
        self._changed(partition)

    def resolve(
        self, lease: Lease, ranges: Iterable[Range], has_ended: bool
    ) -> tuple[list[ResolvedSpans], list[Range]]:
        """Returns the spans that the ranges stand for, and the absent ranges. has_ended: whether the lease has ended,
        so that it holds none of them and may take those that are still free."""
        absent: list[Range] = []
        found: dict[tuple[Partition, str | None], list[Span]] = {}
        for each in ranges:
            partition = self._serving.partitions.get(each.partition)
            if partition is None or self._is_absent(lease, partition, each.topic_id):
                absent.append(each)
            else:
                found.setdefault((partition, each.topic_id), []).append(each.span)
        resolved = [
            self._resolve(lease, partition, topic_id, disjoint(spans), has_ended)
            for (partition, topic_id), spans in found.items()
        ]
        return resolved, absent

    def _resolve(
        self, lease: Lease, partition: Partition, topic_id: str | None, spans: list[Span], has_ended: bool
    ) -> ResolvedSpans:
        same = common_prefix(lease.incarnations.get(partition.source), partition.incarnation, topic_id)
        takes = has_ended or not same.is_certain
        return ResolvedSpans(partition, topic_id, below(spans, same.below), at_or_above(spans, same.below), takes)

    @staticmethod
    def _is_absent(lease: Lease, partition: Partition, topic_id: str | None) -> bool:
        """Returns whether the partition is absent for a lease. Just after an assignment it is, while its topic id is
        unknown."""
        if partition.ownership is Ownership.UNASSIGNED:
            return True
        same = common_prefix(lease.incarnations.get(partition.source), partition.incarnation, topic_id)
        return topic_id is not None and not same.is_certain and partition.incarnation.topic_id is None

    def has_no_room(self, lease: Lease, resolved: Iterable[ResolvedSpans], is_acknowledged: bool) -> NoRoom | None:
        """Returns a partition whose commit metadata could not hold its leases after a claim or an acknowledgement; None
        if all could."""
        held: dict[Partition, list[Span]] = {}
        for each in resolved:
            before = held.get(each.partition, self._spans_of(lease, each.partition))
            after = without(before, each.spans) if is_acknowledged else disjoint([*before, *self._free(each)])
            held[each.partition] = after
        for partition, spans in held.items():
            others = [leased for leased in partition.leased.values() if leased.lease is not lease]
            mine = [Leased(span, UNSENT, lease) for span in spans]
            size, before_that = (
                self._size(partition, [*others, *mine]),
                self._size(partition, partition.leased.values()),
            )
            if size > max(self._room(partition), before_that):
                return NoRoom(partition.source, len(merge_adjacent(spans)))
        return None

    def take_again(self, lease: Lease, each: ResolvedSpans, now: float) -> None:
        """Takes the free parts of these spans again, if allowed."""
        if free := self._free(each):
            self.hold(lease, each.partition, free, now)

    def outcome(self, lease: Lease, each: ResolvedSpans, is_settled_lost: bool) -> tuple[list[Range], list[Range]]:
        """Returns the done ranges and the lost ranges. A range is done if the lease holds it, or if it is settled.
        is_settled_lost: whether settled ranges count as lost instead."""
        held = [entry.span for entry in each.partition.leased_in(each.spans) if entry.lease is lease]
        missing = without(each.spans if is_settled_lost else _unsettled(each), held)
        return each.ranges(without(each.spans, missing)), each.ranges([*missing, *each.void])

    # Release

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
        """Gives the records of a lease back to the front of their partitions."""
        for partition in self.partitions_of(lease):
            mine = [leased for leased in partition.leased.values() if leased.lease is lease]
            for leased in mine:
                del partition.leased[leased.span.first]
                self._give_up(partition, leased, leased is mine[0] and cause is Cause.EXPIRED, cause, now)
            self._changed(partition)
            self._serving.distribute(partition, now)
            self._serving.rereads.pump(partition)

    def restore(self, lease: Lease, partition: Partition, spans: Iterable[Span]) -> None:
        """Restores the records of a lease in a partition that begins. Their history is in `released_unread`."""
        for span, history in partition.released_unread.take(spans):
            partition.leased[span.first] = Leased(span, history, lease)
            lease.incarnations[partition.source] = partition.incarnation
            self._delivery_events.add(
                DeliveryEventType.LEASED, partition.source, [span], holder_of(lease), history.count + 1
            )

    def changed(self, lease: Lease) -> None:
        """Notes a change of a lease, which is stored with each of its partitions."""
        for partition in self.partitions_of(lease):
            self._changed(partition)

    # Queries

    def are_elsewhere(self, lease: Lease, ranges: Iterable[Range]) -> bool:
        """Returns whether any of these ranges is absent, or may soon be."""
        known = self._serving.partitions
        return any(
            (partition := known.get(each.partition)) is None
            or not partition.is_active
            or self._is_absent(lease, partition, each.topic_id)
            for each in ranges
        )

    def awaited(self, topics: Iterable[TopicName]) -> UpstreamPartition | None:
        """Returns a partition of these topics whose owner is not known yet, but soon will be; None if there is none."""
        known = self._serving.partitions
        for topic in topics:
            for source in self._topics.consumed(topic):
                is_awaited = source not in known or known[source].has_no_known_owner
                if is_awaited and not self._commits.is_down(source.cluster):
                    return source
        return None

    def moving(self, sources: Iterable[UpstreamPartition]) -> UpstreamPartition | None:
        """Returns one of these partitions that this process had and may get back; None if there is none."""
        known = self._serving.partitions
        for source in sources:
            partition = known.get(source)
            if partition is not None and partition.has_no_known_owner and not self._commits.is_down(source.cluster):
                return source
        return None

    def are_ends_unknown(self, ends: Mapping[UpstreamPartition, int]) -> bool:
        """Returns whether a partition has just been assigned again, and the end of its log is not known to be where
        these ends say."""
        known = self._serving.partitions
        return self.moving(ends) is not None or any(
            (partition := known.get(source)) is not None
            and partition.is_active
            and not partition.looked
            and partition.end < end
            and not self._commits.is_down(source.cluster)
            for source, end in ends.items()
        )

    def lack_topic_ids(self, topics: Iterable[TopicName]) -> bool:
        """Returns whether the id of one of these topics is not known yet, but soon will be."""
        return any(each.is_active and each.incarnation.topic_id is None for each in self.partitions(topics))

    def with_older_end(self, topics: Iterable[TopicName], look: int) -> UpstreamPartition | None:
        """Returns a partition of these topics whose end was asked for before this look, or which an engine has lost and
        may get back; None if there is none, except in clusters that are down."""
        for partition in self.partitions(topics):
            is_older = partition.is_active and partition.looked < look
            if (is_older or partition.has_no_known_owner) and not self._commits.is_down(partition.source.cluster):
                return partition.source
        return None

    def partitions(self, topics: Iterable[TopicName]) -> list[Partition]:
        """Returns the partitions of these topics that this pool knows."""
        found: dict[UpstreamPartition, Partition] = {}
        for topic in topics:
            for source in self._topics.partitions(topic):
                if source in self._serving.partitions:
                    found[source] = self._serving.partitions[source]
        return list(found.values())

    def partitions_of(self, lease: Lease) -> list[Partition]:
        """Returns the partitions in which a lease holds records."""
        known = (self._serving.partitions.get(source) for source in lease.incarnations)
        return [
            partition
            for partition in known
            if partition is not None and any(leased.lease is lease for leased in partition.leased.values())
        ]

    def ranges(self, lease: Lease) -> Iterator[Range]:
        """Returns the ranges that a lease holds."""
        for partition in self.partitions_of(lease):
            for span in self._spans_of(lease, partition):
                yield Range(partition.source, span, partition.incarnation.topic_id or None)

    def has_room(self, partition: Partition, id: LeaseId, holder: HolderId, runs: int) -> bool:
        """Returns whether another lease of a partition could be stored, however its runs lie."""
        if self._commits.is_down(partition.source.cluster):
            return False
        most = (len(id) + len(holder) + 20 + 10 * runs) * 4 // 3
        return self._size(partition, partition.leased.values()) + most <= self._room(partition)

    # Internals

    def _free(self, each: ResolvedSpans) -> list[Span]:
        """Returns the free parts of resolved spans, if they may be taken."""
        return obtainable(each.partition, _unsettled(each)) if each.takes else []

    def _spans_of(self, lease: Lease, partition: Partition) -> list[Span]:
        return [leased.span for leased in partition.leased.values() if leased.lease is lease]

    def _room(self, partition: Partition) -> float:
        """Returns the characters that leases may take of the metadata of a partition's commit."""
        return METADATA_SHARE * self._commits.metadata_limit(partition.source.cluster)

    def _size(self, partition: Partition, leased: Iterable[Leased]) -> int:
        """Returns the characters that these leases of a partition take."""
        base = partition.ledger.committable
        return size_of_leases(base, stored_leases(leased, base, self._settings.epoch))

    def _give_up(self, partition: Partition, leased: Leased, is_first: bool, cause: Cause, now: float) -> None:
        """Releases the records of a lease. With NEVER_FETCHED they count as never leased, because the holder got no
        answer."""
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


def _unsettled(each: ResolvedSpans) -> list[Span]:
    ledger = each.partition.ledger
    return [part for span in each.spans for part in ledger.unsettled(span.first, span.last)]
