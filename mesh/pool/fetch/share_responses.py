"""Responses to ShareFetches: batches as they are in the log, and the offsets in them that the member has acquired.

Clients walk through both in step. They take an acquired offset without a record for a gap, so ranges that are out of
order would mean lost records (Java's ShareCompletedFetch). So the order is checked before an answer leaves.
"""

from __future__ import annotations

from collections.abc import Iterator

from mesh.pool.common.delivery_events import DeliveryEvents
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.redelivery.sent_batches import SentBatches
from mesh.pool.redelivery.share_releases import ShareReleases
from mesh.pool.state.acquired import Acquired, KeptBatch
from mesh.pool.state.fetch import AcquiredSpan, AcquireTerms, Delivered, SharedPartition, SharedRecords
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch, Violation
from mesh.pool.state.window import Available
from mesh.records.batch import RecordBatch
from mesh.records.runs import copy_batch, has_own_offsets, rebase
from mesh.records.spans import Span, TopicName
from mesh.wire.messages import Buffer

MOST_DELIVERIES = (1 << 15) - 1
"""The largest value of the delivery count in the response."""


class ShareResponses:
    """Makes the result of a ShareFetch from its collected records, which the member acquires by that."""

    def __init__(
        self,
        parts: PoolParts,
        distribution: Distribution,
        sent_batches: SentBatches,
        releases: ShareReleases,
        delivery_events: DeliveryEvents,
    ) -> None:
        self._group = parts.group
        self._settings = parts.share
        self._distribution = distribution
        self._sent_batches = sent_batches
        self._releases = releases
        self._delivery_events = delivery_events

    def of(self, fetch: Fetch, terms: AcquireTerms, now: float) -> SharedRecords:
        """Makes the result of a ShareFetch from its collected records. The member has acquired them from then on. Must
        be called once for each ShareFetch."""
        if not fetch.has_records:
            return SharedRecords()
        topics: dict[TopicName, tuple[int, int]] = {}
        partitions: list[SharedPartition] = []
        redelivered = 0
        is_new = False
        for wanted in fetch.partition_fetches:
            if not wanted.collected:
                continue
            partitions.append(self._partition(fetch.member, wanted, terms, now))
            for available in wanted.collected:
                is_new = is_new or not available.history.was_sent
                redelivered += len(available) if available.history.was_sent else 0
            topic = wanted.partition.source.topic
            records, size = topics.get(topic, (0, 0))
            records += sum(map(len, wanted.collected))
            topics[topic] = records, size + sum(map(len, partitions[-1].records))
        return SharedRecords(tuple(partitions), Delivered(self._group, topics, redelivered, is_new))

    def _partition(self, member: Member, wanted: PartitionFetch, terms: AcquireTerms, now: float) -> SharedPartition:
        partition = wanted.partition
        self._distribution.touched.add(partition)  # its kept bytes count against the budgets
        records: list[Buffer] = []
        acquired: list[AcquiredSpan] = []
        sent: RecordBatch | None = None
        for available in sorted(wanted.collected or (), key=_first):
            batch = self._acquire(member, partition, available, now)
            if sent is None or not _are_the_same(batch, sent):
                records.append(batch.data)
            sent = batch
            deliveries = min(available.history.count + 1, MOST_DELIVERIES)
            for span in _ranges(batch, available.span, terms.longest_range):
                if acquired and span.first <= acquired[-1].last:
                    raise Violation(f"{partition.source}: offset {span.first} is acquired out of order")
                acquired.append(AcquiredSpan(span.first, span.last, deliveries))
        return SharedPartition(partition.source, tuple(records), tuple(acquired))

    def _acquire(self, member: Member, partition: Partition, available: Available, now: float) -> RecordBatch:
        """Acquires a batch for a member. Returns it with its upstream offsets in the bytes."""
        assert member.share is not None
        batch, history = available.batch, available.history
        self._distribution.collected_bytes -= available.size
        member.delivered += len(available)
        member.redelivered += len(available) if history.was_sent else 0
        if not has_own_offsets(batch):
            # Another member got these bytes with virtual offsets. They may still be in the send buffer of its
            # connection.
            batch = copy_batch(batch)
            rebase(batch, batch.base)
        deadline = now + self._settings.value.lock
        kept = KeptBatch(batch)
        holding = member.share.of(partition.source)
        holding.add(Acquired(available.span, history, kept, deadline, now))
        self._sent_batches.keep(None, kept)
        self._releases.watch(member, partition.source, holding, deadline)
        if self._delivery_events.is_kept:
            self._delivery_events.delivered(
                partition.source, available.span, member.holder, history.count + 1, batch, is_again=history.was_sent
            )
        return batch


def _ranges(batch: RecordBatch, span: Span, longest: int) -> Iterator[Span]:
    """Yields a span of a batch or run in ranges of at most `longest` offsets each. A single batch is not divided."""
    first = span.first
    for index in range(1, len(batch.marks) if len(span) > longest else 0):
        begin = batch.marks[index][1]
        following = batch.marks[index + 1][1] if index + 1 < len(batch.marks) else span.last + 1
        if following - first > longest and begin > first:
            yield Span(first, begin - 1)
            first = begin
    yield Span(first, span.last)


def _are_the_same(one: RecordBatch, other: RecordBatch) -> bool:
    """Returns whether both have the same bytes."""
    return (one.base, one.first, one.last, len(one.data)) == (other.base, other.first, other.last, len(other.data))


def _first(available: Available) -> int:
    return available.first
