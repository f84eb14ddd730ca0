"""Responses to Fetches: the collected batches, at the next virtual offsets of their member, and records that are sent
again."""

from __future__ import annotations

from mesh.pool.common.delivery_events import DeliveryEvents
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.redelivery.sent_batches import SentBatches
from mesh.pool.state.fetch import Delivered, FetchedPartition, FetchResult
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch
from mesh.pool.state.slots import Slots, slot_of
from mesh.pool.state.window import Available, Window
from mesh.records.runs import copy_batch, rebase
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer


class Responses:
    """Makes the result of a Fetch from its collected records, and adds these to the windows of its member."""

    def __init__(
        self,
        parts: PoolParts,
        slots: Slots[Member],
        distribution: Distribution,
        sent_batches: SentBatches,
        delivery_events: DeliveryEvents,
    ) -> None:
        self._group = parts.group
        self._slots = slots
        self._distribution = distribution
        self._sent_batches = sent_batches
        self._delivery_events = delivery_events

    def of(self, fetch: Fetch, now: float) -> FetchResult:
        """Makes the result of a Fetch from its collected records and those to send again. The records are in the
        member's windows from then on. Must be called once for each Fetch."""
        if not fetch.has_records:
            return FetchResult(tuple(_nothing(each) for each in fetch.requested))
        topics: dict[TopicName, tuple[int, int]] = {}
        redelivered = 0
        is_new = False
        fetched: list[FetchedPartition] = []
        for partition_fetch in fetch.requested:
            if isinstance(partition_fetch, FetchedPartition) or not partition_fetch.size:
                fetched.append(_nothing(partition_fetch))
                continue
            records: list[Buffer] = []
            end = partition_fetch.offset
            count = 0
            for batch, end in partition_fetch.resent or ():  # noqa: B007 - the last end is the end of the answer
                records.append(batch.data)
                count += batch.record_count
            if partition_fetch.collected:
                # Bytes that are kept to be sent again count against the budgets.
                self._distribution.touched.add(partition_fetch.partition)
            for available in partition_fetch.collected or ():
                self._distribution.collected_bytes -= available.size
                fetch.member.delivered += len(available)
                if available.history.was_sent:
                    fetch.member.redelivered += len(available)
                    redelivered += available.batch.record_count
                is_new = is_new or not available.history.was_sent
                data, end = self._send(fetch.member, partition_fetch.partition, partition_fetch.window, available, now)
                records.append(data)
                count += available.batch.record_count
            before = topics.get(partition_fetch.partition.source.topic, (0, 0))
            topics[partition_fetch.partition.source.topic] = (before[0] + count, before[1] + partition_fetch.size)
            fetched.append(
                FetchedPartition(ErrorCode.NONE, end, tuple(records)) if records else _nothing(partition_fetch)
            )
        return FetchResult(tuple(fetched), Delivered(self._group, topics, redelivered, is_new))

    def _send(
        self, member: Member, partition: Partition, window: Window, available: Available, now: float
    ) -> tuple[Buffer, int]:
        if available.history.was_sent:
            # Its bytes may still be in another connection's send buffer, with other offsets.
            available.batch = copy_batch(available.batch)
        if slot_of(window.end + len(available) + 1) != slot_of(window.end):
            window.jump(self._slots.start(member.slot_above(self._slots, window.end)))
        delivery = window.append(available, now)
        rebase(available.batch, delivery.base_offset(available.batch))
        self._sent_batches.keep(window, delivery)
        if self._delivery_events.is_kept:
            history, batch = available.history, available.batch
            self._delivery_events.delivered(
                partition.source, delivery.span, member.holder, history.count + 1, batch, is_again=history.was_sent
            )
        return available.batch.data, delivery.end


def _nothing(partition_fetch: PartitionFetch | FetchedPartition) -> FetchedPartition:
    if isinstance(partition_fetch, FetchedPartition):
        return partition_fetch
    more = partition_fetch.needs_resend or partition_fetch.partition.has_more
    return FetchedPartition(ErrorCode.NONE, partition_fetch.offset + more)
