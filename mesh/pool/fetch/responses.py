"""What a Fetch is answered: the batches it has collected, at the next offsets of its member, and what is sent again."""

from __future__ import annotations

from mesh.pool.common.delivery_events import DeliveryEvents, DeliveryEventType
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.redelivery.replays import Replays
from mesh.pool.state.fetch import Delivered, FetchedPartition, FetchResult
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch
from mesh.pool.state.slots import Slots, slot_of
from mesh.pool.state.window import Available, Window
from mesh.records.batch import timestamps_of
from mesh.records.runs import copy_batch, rebase
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer


class Responses:
    """Makes the result of a Fetch of what it has collected; from then on that is in the windows of its member."""

    def __init__(
        self,
        parts: PoolParts,
        slots: Slots[Member],
        distribution: Distribution,
        replays: Replays,
        delivery_events: DeliveryEvents,
    ) -> None:
        self._group = parts.group
        self._slots = slots
        self._distribution = distribution
        self._replays = replays
        self._delivery_events = delivery_events

    def of(self, fetch: Fetch, now: float) -> FetchResult:
        """What it has collected and what it is sent again, from here on its member's; to be called once."""
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
            for batch, end in partition_fetch.replay or ():  # noqa: B007 - the last end is that of the answer
                records.append(batch.data)
                count += batch.record_count
            if partition_fetch.collected:
                # What is kept for replays counts in the budgets.
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
            # Its bytes may still lie in another connection's send buffer, under other offsets.
            available.batch = copy_batch(available.batch)
        if slot_of(window.end + len(available) + 1) != slot_of(window.end):
            window.jump(self._slots.start(member.slot_above(self._slots, window.end)))
        delivery = window.append(available, now)
        rebase(available.batch, delivery.base_offset(available.batch))
        self._replays.keep(window, delivery)
        if self._delivery_events.is_kept:
            history = available.history
            kind = DeliveryEventType.REDELIVERED if history.was_sent else DeliveryEventType.DELIVERED
            _, produced = timestamps_of(available.batch)
            self._delivery_events.add(
                kind, partition.source, [delivery.span], member.holder, history.count + 1, produced
            )
        return available.batch.data, delivery.end


def _nothing(partition_fetch: PartitionFetch | FetchedPartition) -> FetchedPartition:
    if isinstance(partition_fetch, FetchedPartition):
        return partition_fetch
    more = partition_fetch.behind or partition_fetch.partition.has_more
    return FetchedPartition(ErrorCode.NONE, partition_fetch.offset + more)
