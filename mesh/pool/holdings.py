"""What leases hold of the partitions of a pool, beside the members' windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from mesh.pool.acknowledged import size_of_leases
from mesh.pool.acquiring import acquire, available_spans
from mesh.pool.commits import Commits
from mesh.pool.leased import Lease, Leased, LeaseRequest, Range, common, cut_out, holder_of, stored_leases
from mesh.pool.notes import Kind
from mesh.pool.partition import Partition, Standing
from mesh.pool.redelivery import Cause
from mesh.pool.serving import Serving
from mesh.pool.settings import PoolSettings
from mesh.pool.topics import VirtualTopics
from mesh.pool.window import Delivery
from mesh.records.spans import Span, TopicName, UpstreamPartition

Chosen: TypeAlias = tuple[Partition, Span]
NOWHERE: Mapping[UpstreamPartition, int] = MappingProxyType({})
MOST_SPANS = 50
"""Runs that one request takes of a partition."""
USUAL_SIZE = 1_000.0
"""Bytes of a record of which nothing is known."""
METADATA_SHARE = 0.5
"""The part of the metadata of a commit that leases may take."""


class Holdings:
    def __init__(self, settings: PoolSettings, topics: VirtualTopics, serving: Serving, commits: Commits) -> None:
        self._settings = settings
        self._topics = topics
        self._serving = serving
        self._commits = commits
        self._notes = serving.notes
        self._had_single = False
        """Whether the last record that came alone was a lease's: every other one is."""

    def choose(self, request: LeaseRequest, begins: Mapping[UpstreamPartition, int] = NOWHERE) -> list[Chosen]:
        """Spans of at most `most` offsets in all, evenly over the partitions; while the pool has members, at most half
        of what is available of each (or, when none of them waits, the last one too; when one does, every other).
        begins: nothing below these."""
        distribution = self._serving.distribution
        if distribution.is_stopped:
            return []
        has_members = bool(distribution.members)
        available: list[tuple[Partition, list[Span]]] = []
        for partition in self.partitions(request.topics):
            if partition.source.cluster not in distribution.withheld and self._has_room(partition, request):
                spans = available_spans(partition, has_members, distribution)
                if request.ends is not None:
                    spans = _below(spans, request.ends.get(partition.source, 0))
                if (begin := begins.get(partition.source, 0)) > 0:
                    spans = _from(spans, begin)
                spans = spans[:MOST_SPANS]
                if has_members:
                    spans = _first_of(spans, self._share_of(sum(map(len, spans))))
                if spans:
                    available.append((partition, spans))
        chosen: list[Chosen] = []
        left, bytes_left = request.most, request.most_bytes if request.most_bytes is not None else math.inf
        available.sort(key=lambda entry: sum(map(len, entry[1])))
        for index, (partition, spans) in enumerate(available):
            others = len(available) - index
            size = partition.mean_size or USUAL_SIZE
            most = math.floor(min(-(-left // others), max(bytes_left / others / size, 0.0 if chosen else 1.0)))
            part = _first_of(spans, most)
            chosen += [(partition, span) for span in part]
            taken = sum(map(len, part))
            left, bytes_left = left - taken, bytes_left - taken * size
        return chosen

    def behind_all(self, topics: Iterable[TopicName]) -> Mapping[UpstreamPartition, int]:
        """The offset behind all that is known of each partition."""
        return {each.source: max(each.end, each.ledger.received) for each in self.partitions(topics)}

    def rest_of(self, request: LeaseRequest, lease: Lease) -> LeaseRequest | None:
        """What a lease that was begun for a request may still take; None if that is nothing."""
        most, most_bytes = request.most, request.most_bytes
        for each in self.ranges(lease):
            most -= len(each.span)
            if most_bytes is not None:
                size = self._serving.partitions[each.partition].mean_size or USUAL_SIZE
                most_bytes -= math.ceil(len(each.span) * size)
        if most <= 0 or (most_bytes is not None and most_bytes <= 0):
            return None
        return replace(request, most=most, most_bytes=most_bytes)

    def _share_of(self, available: int) -> int:
        """What a lease may have of so many offsets of a partition beside members."""
        if self._serving.distribution.waiting == 0:
            return (available + 1) // 2
        if available == 1:
            self._had_single = not self._had_single
            return int(self._had_single)
        return available // 2

    def are_unweighed(self, topics: Iterable[TopicName]) -> bool:
        """Whether there is anything to lease of which nothing is known of how large records are, and will be soon."""
        return any(
            partition.is_active
            and not partition.mean_size
            and partition.ledger.received < partition.end
            and not self._commits.is_down(partition.source.cluster)
            for partition in self.partitions(topics)
        )

    def weigh(self, ranges: Iterable[Range], size: int) -> None:
        """A holder says how many bytes the records of these had, all together."""
        counts = [(each, len(each.span)) for each in ranges]
        total = sum(count for _, count in counts)
        for each, count in counts:
            self._serving.partitions[each.partition].weigh(round(size * count / total), count)

    def hold(self, lease: Lease, partition: Partition, span: Span, now: float) -> list[Span]:
        """Take what nobody holds of a span for a lease."""
        taken = acquire(self._serving.distribution, partition, span, now)
        for part, history in taken:
            partition.leased[part.first] = Leased(part, history, lease)
            self._notes.add(Kind.LEASED, partition.source, [part], holder_of(lease), history.count + 1)
        self._changed(partition)
        return [part for part, _ in taken]

    def take_again(
        self, lease: Lease, ranges: Iterable[Range], now: float, is_settled_lost: bool = False
    ) -> tuple[list[Range], list[Range], list[Range]]:
        """done: held by this lease from now on, or settled, unless that counts as lost; lost; absent."""
        done: list[Range] = []
        lost: list[Range] = []
        absent: list[Range] = []
        for each in ranges:
            partition = self._serving.partitions.get(each.partition)
            if partition is None or partition.standing is Standing.ABSENT:
                absent.append(each)
                continue
            open_spans = partition.ledger.unsettled(each.span.first, each.span.last)
            for span in open_spans:
                self.hold(lease, partition, span, now)
            missing, kept = [each.span] if is_settled_lost else open_spans, [each.span]
            for leased in partition.leased.values():
                if leased.lease is lease:
                    missing = cut_out(missing, leased.span)
            for span in missing:
                kept = cut_out(kept, span)
            lost += [Range(each.partition, span) for span in missing]
            done += [Range(each.partition, span) for span in kept]
        return done, lost, absent

    def settle(self, lease: Lease, each: Range) -> None:
        partition = self._serving.partitions[each.partition]
        for leased in [entry for entry in partition.leased.values() if entry.lease is lease]:
            part = common(leased.span, each.span)
            if part is not None:
                self._cut(partition, leased, part)
                partition.ledger.settle(part.first, part.last)
                self._notes.add(Kind.ACKNOWLEDGED, partition.source, [part], holder_of(lease))

    def give_back(self, lease: Lease, cause: Cause, now: float) -> None:
        """What it holds comes back: to the front of its partitions."""
        for partition in self.partitions_of(lease):
            mine = [leased for leased in partition.leased.values() if leased.lease is lease]
            for leased in mine:
                del partition.leased[leased.span.first]
                self._give_up(partition, leased, leased is mine[0] and cause is Cause.EXPIRED, cause, now)
            self._changed(partition)
            self._serving.distribution.distribute(partition, now)
            self._serving.rereads.pump(partition)

    def changed(self, lease: Lease) -> None:
        """Something of it that is stored with each of its partitions."""
        for partition in self.partitions_of(lease):
            self._changed(partition)

    def are_elsewhere(self, ranges: Iterable[Range]) -> bool:
        known = self._serving.partitions
        return any(each.partition not in known or not known[each.partition].is_active for each in ranges)

    def are_awaited(self, topics: Iterable[TopicName]) -> bool:
        """Whether it will be known soon to whom all partitions of these are assigned."""
        known = self._serving.partitions
        return any(
            (source not in known or known[source].is_awaited) and not self._commits.is_down(source.cluster)
            for topic in topics
            for source in self._topics.consumed(topic)
        )

    def partitions(self, topics: Iterable[TopicName]) -> list[Partition]:
        """Those of this process that stand behind these topics."""
        found: dict[UpstreamPartition, Partition] = {}
        for topic in topics:
            for source in self._topics.partitions(topic):
                if source in self._serving.partitions:
                    found[source] = self._serving.partitions[source]
        return list(found.values())

    def partitions_of(self, lease: Lease) -> list[Partition]:
        return [
            partition
            for partition in self._serving.partitions.values()
            if any(leased.lease is lease for leased in partition.leased.values())
        ]

    def ranges(self, lease: Lease) -> Iterable[Range]:
        for partition in self._serving.partitions.values():
            for leased in partition.leased.values():
                if leased.lease is lease:
                    yield Range(partition.source, leased.span)

    def _has_room(self, partition: Partition, request: LeaseRequest) -> bool:
        """Whether another lease of a partition could be stored, however it is cut."""
        cluster = partition.source.cluster
        if self._commits.is_down(cluster):
            return False
        stored = stored_leases(partition.leased.values(), self._settings.epoch)
        taken = size_of_leases(partition.ledger.committable, stored)
        most = (len(request.id) + len(request.holder) + 20 + 10 * MOST_SPANS) * 4 // 3
        return taken + most <= METADATA_SHARE * self._commits.metadata_limit(cluster)

    def _cut(self, partition: Partition, leased: Leased, part: Span) -> None:
        """A part of what is leased is not any more."""
        del partition.leased[leased.span.first]
        for rest in cut_out([leased.span], part):
            partition.leased[rest.first] = Leased(rest, leased.history, leased.lease)
        self._changed(partition)

    def _give_up(self, partition: Partition, leased: Leased, is_first: bool, cause: Cause, now: float) -> None:
        """NEVER_FETCHED: as if it had never been leased, since nobody was told of it."""
        count = leased.history.count + 1
        self._notes.given_up(cause, partition.source, [leased.span], holder_of(leased.lease), count)
        for span in partition.ledger.unsettled(leased.span.first, leased.span.last):
            parts = [(span, leased.history)]
            if cause is not Cause.NEVER_FETCHED:
                holder = leased.lease.holder
                parts = self._settings.redelivery.given_up(
                    span, leased.history, is_first, holder, cause, is_alone=False
                )
            read = []
            for part, history in parts:
                below, above = _split(part, partition.ledger.received)
                read += [(each, history) for each in below]
                for each in above:
                    partition.ahead.note(each, history)
            delivery = Delivery(0, span.first, span.last, None, leased.history)
            self._serving.giving_up.give_up(partition, delivery, read, None, now)

    def _changed(self, partition: Partition) -> None:
        partition.ledger.leases_changed()
        self._serving.distribution.touched.add(partition)


def _below(spans: Sequence[Span], end: int) -> list[Span]:
    """What of these lies below an offset."""
    return [span if span.last < end else Span(span.first, end - 1) for span in spans if span.first < end]


def _from(spans: Sequence[Span], begin: int) -> list[Span]:
    """What of these does not lie below an offset."""
    return [span if span.first >= begin else Span(begin, span.last) for span in spans if span.last >= begin]


def _first_of(spans: Sequence[Span], most: int) -> list[Span]:
    """The first `most` offsets of these."""
    first: list[Span] = []
    for span in spans:
        if most <= 0:
            break
        first.append(span if len(span) <= most else Span(span.first, span.first + most - 1))
        most -= len(first[-1])
    return first


def _split(span: Span, offset: int) -> tuple[list[Span], list[Span]]:
    """What of it lies below an offset, and what does not."""
    if span.last < offset:
        return [span], []
    if span.first >= offset:
        return [], [span]
    return [Span(span.first, offset - 1)], [Span(offset, span.last)]
