"""What a request for a lease may have: evenly of all partitions, and beside members no more than half of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from mesh.pool.fetch.serving import Serving
from mesh.pool.leases.acquire import available_spans
from mesh.pool.leases.held import HeldLeases
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.leases import Lease, LeaseRequest, Range
from mesh.pool.state.partition import Partition
from mesh.records.span_lists import at_or_above, below, count, first_of
from mesh.records.spans import Span, TopicName, UpstreamPartition

Chosen: TypeAlias = tuple[Partition, Span]
NOWHERE: Mapping[UpstreamPartition, int] = MappingProxyType({})
MOST_SPANS = 50
"""Runs that one request takes of a partition."""
USUAL_SIZE = 1_000.0
"""Bytes of a record of which nothing is known."""


class LeaseChoice:
    def __init__(self, serving: Serving, commits: Commits, held: HeldLeases) -> None:
        self._serving = serving
        self._commits = commits
        self._held = held
        self._had_single = False
        """Whether the last record that came alone was a lease's: every other one is."""

    def choose(self, request: LeaseRequest, begins: Mapping[UpstreamPartition, int] = NOWHERE) -> list[Chosen]:
        """Spans of at most `most` offsets in all, evenly over the partitions; while the pool has members, at most half
        of what is available of each (or, when none of them waits, the last one too; when one does, every other).
        begins: nothing below these."""
        available = [
            (partition, spans)
            for partition in self._held.partitions(request.topics)
            if (spans := self._available(partition, request, begins))
        ]
        chosen: list[Chosen] = []
        left, bytes_left = request.most, request.most_bytes if request.most_bytes is not None else math.inf
        available.sort(key=lambda entry: count(entry[1]))
        for index, (partition, spans) in enumerate(available):
            others = len(available) - index
            size = partition.mean_size or USUAL_SIZE
            most = math.floor(min(-(-left // others), max(bytes_left / others / size, 0.0 if chosen else 1.0)))
            part = first_of(spans, most)
            chosen += [(partition, span) for span in part]
            left, bytes_left = left - count(part), bytes_left - count(part) * size
        return chosen

    def behind_all(self, topics: Iterable[TopicName]) -> Mapping[UpstreamPartition, int]:
        """The offset behind all that is known of each partition."""
        return {each.source: max(each.end, each.ledger.received) for each in self._held.partitions(topics)}

    def rest_of(self, request: LeaseRequest, lease: Lease) -> LeaseRequest | None:
        """What a lease that was begun for a request may still take; None if that is nothing."""
        most, most_bytes = request.most, request.most_bytes
        for each in self._held.ranges(lease):
            most -= len(each.span)
            if most_bytes is not None:
                size = self._serving.partitions[each.partition].mean_size or USUAL_SIZE
                most_bytes -= math.ceil(len(each.span) * size)
        if most <= 0 or (most_bytes is not None and most_bytes <= 0):
            return None
        return replace(request, most=most, most_bytes=most_bytes)

    def are_unweighed(self, topics: Iterable[TopicName]) -> bool:
        """Whether there is anything to lease of which nothing is known of how large records are, and will be soon."""
        return any(
            partition.is_active
            and not partition.mean_size
            and partition.ledger.received < partition.end
            and not self._commits.is_down(partition.source.cluster)
            for partition in self._held.partitions(topics)
        )

    def note_sizes(self, ranges: Iterable[Range], size: int) -> None:
        """A holder says how many bytes the records of these had, all together."""
        counts = [(each, len(each.span)) for each in ranges]
        total = sum(count for _, count in counts)
        for each, offsets in counts:
            self._serving.partitions[each.partition].weigh(round(size * offsets / total), offsets)

    def _available(
        self, partition: Partition, request: LeaseRequest, begins: Mapping[UpstreamPartition, int]
    ) -> list[Span]:
        """What a request may have of one partition."""
        distribution = self._serving.distribution
        is_withheld = distribution.is_stopped or partition.source.cluster in distribution.withheld
        if is_withheld or not self._held.has_room(partition, request.id, request.holder, MOST_SPANS):
            return []
        has_members = bool(distribution.members)
        spans = available_spans(partition, has_members, distribution)
        if request.ends is not None:
            spans = below(spans, request.ends.get(partition.source, 0))
        if (begin := begins.get(partition.source, 0)) > 0:
            spans = at_or_above(spans, begin)
        spans = spans[:MOST_SPANS]
        return first_of(spans, self._share_of(count(spans))) if has_members else spans

    def _share_of(self, available: int) -> int:
        """What a lease may have of so many offsets of a partition beside members."""
        if self._serving.distribution.waiting == 0:
            return (available + 1) // 2
        if available == 1:
            self._had_single = not self._had_single
            return int(self._had_single)
        return available // 2
