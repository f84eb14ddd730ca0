"""Chooses the spans of a lease: evenly over the partitions, and at most half of each while the pool has members."""

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
"""The most runs that one request takes of a partition."""
USUAL_SIZE = 1_000.0
"""The assumed bytes of a record when no size is known."""


class LeaseChoice:
    """Chooses spans for the leases of one pool."""

    def __init__(self, serving: Serving, commits: Commits, held: HeldLeases) -> None:
        self._serving = serving
        self._commits = commits
        self._held = held
        self._had_single = False
        """True if a lease got the last single record. Leases get every other one."""

    def choose(self, request: LeaseRequest, begins: Mapping[UpstreamPartition, int] = NOWHERE) -> list[Chosen]:
        """Returns spans of at most `most` offsets in all, evenly over the partitions.

        While the pool has members, a lease gets at most half of the available offsets of each partition. It gets a
        single available offset if no member waits, and every other time if one does. begins: the offset of each
        partition below which nothing is taken.
        """
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
        """Returns the offset behind all known offsets of each partition."""
        return {each.source: max(each.end, each.ledger.received) for each in self._held.partitions(topics)}

    def rest_of(self, request: LeaseRequest, lease: Lease) -> LeaseRequest | None:
        """Returns a request for the rest of a lease that has begun; None if the lease may take nothing more."""
        most, most_bytes = request.most, request.most_bytes
        for each in self._held.ranges(lease):
            most -= len(each.span)
            if most_bytes is not None:
                size = self._serving.partitions[each.partition].mean_size or USUAL_SIZE
                most_bytes -= math.ceil(len(each.span) * size)
        if most <= 0 or (most_bytes is not None and most_bytes <= 0):
            return None
        return replace(request, most=most, most_bytes=most_bytes)

    def are_sizes_unknown(self, topics: Iterable[TopicName]) -> bool:
        """Returns whether records of unknown size can be leased, and their size will soon be known."""
        return any(
            partition.is_active
            and not partition.mean_size
            and partition.ledger.received < partition.end
            and not self._commits.is_down(partition.source.cluster)
            for partition in self._held.partitions(topics)
        )

    def note_sizes(self, ranges: Iterable[Range], size: int) -> None:
        """Notes the bytes of the records in these ranges, all together, as a holder counted them."""
        counts = [(each, len(each.span)) for each in ranges]
        total = sum(count for _, count in counts)
        for each, offsets in counts:
            self._serving.partitions[each.partition].learn_size(round(size * offsets / total), offsets)

    def _available(
        self, partition: Partition, request: LeaseRequest, begins: Mapping[UpstreamPartition, int]
    ) -> list[Span]:
        """Returns the spans that a request may have of one partition."""
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
        """Returns the part of these offsets that a lease may take beside members."""
        if self._serving.distribution.waiting == 0:
            return (available + 1) // 2
        if available == 1:
            self._had_single = not self._had_single
            return int(self._had_single)
        return available // 2
