"""Releases members' records: to the front of their partition, after a rest, or to the dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from mesh.pool.common.delivery_events import DeliveryEvents
from mesh.pool.common.history import Cause, History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.distribution.slicing import Slicing, can_be_cut
from mesh.pool.redelivery.dead_letters import DeadLetters
from mesh.pool.redelivery.rereads import Rereads
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Ownership, Partition, Released
from mesh.pool.state.slots import Slot
from mesh.pool.state.window import Available, Delivery
from mesh.records.runs import singles
from mesh.records.spans import Span, UpstreamPartition


class Releases:
    """The releases of members' records in one pool."""

    def __init__(
        self,
        parts: PoolParts,
        partitions: Mapping[UpstreamPartition, Partition],
        distribution: Distribution,
        slicing: Slicing,
        rereads: Rereads,
        dead_letters: DeadLetters,
        delivery_events: DeliveryEvents,
    ) -> None:
        self._redelivery = parts.settings.redelivery
        self._others_first = parts.settings.others_first
        self._timers = parts.timers
        self._partitions = partitions
        self._distribution = distribution
        self._slicing = slicing
        self._rereads = rereads
        self._dead_letters = dead_letters
        self._delivery_events = delivery_events

    def release(
        self,
        member: Member,
        windows: Iterable[UpstreamPartition],
        cause: Cause,
        now: float,
        others_first: bool = False,
    ) -> None:
        """Gives a member's records back to the front of their partitions. others_first: whether the member lives on,
        and other members get them first."""
        changed: list[Partition] = []
        # Look before anything is released: if the member held a single record, that record alone is to blame.
        held = member.in_flight
        avoid = member.slot if others_first and len(self._distribution.members) > 1 else None
        for source in windows:
            partition = self._partitions[source]
            deliveries = member.windows[source].release()
            for delivery in deliveries:
                self._distribution.free(member, len(delivery))
                if partition.ownership is not Ownership.UNASSIGNED:
                    # Clients process a partition in order, so the first delivery holds the record at which they failed.
                    is_first = delivery is deliveries[0]
                    if self._delivery_events.is_kept:
                        count = delivery.history.count + 1
                        self._delivery_events.note_release(cause, source, [delivery.span], member.holder, count)
                    parts = self._redelivery.after_release(
                        delivery.span,
                        delivery.history,
                        is_first,
                        member.name,
                        cause,
                        partial(_can_be_cut, delivery),
                        held == len(delivery),
                        partial(_first_record_of, delivery),
                    )
                    self.release_spans(partition, delivery, parts, avoid, now)
            if deliveries:
                changed.append(partition)
        # Distribute after everything is back: the rank of a member that lives on depends on all that it still holds.
        for partition in changed:
            self._distribution.distribute(partition, now)
            self._rereads.pump(partition)
        if avoid is not None and changed:
            self._timers.at(now + self._others_first, lambda then: self.forgive(member, then))

    def forgive(self, member: Member, now: float) -> None:
        """Lets a member get the records again that were taken from it, after other members had time to take them."""
        for partition in self._partitions.values():
            for available in partition.backlog.values():
                if available.avoid == member.slot:
                    available.avoid = None
            for released in (*partition.released.values(), *partition.resting.values()):
                if released.avoid == member.slot:
                    released.avoid = None
        self._distribution.refill(member, now)

    def release_spans(
        self,
        partition: Partition,
        delivery: Delivery,
        parts: list[tuple[Span, History]],
        avoid: Slot | None,
        now: float,
    ) -> None:
        parts = self.still_wanted(partition, parts)
        self._count(partition, parts)
        for span, history in parts:
            if seconds := self._redelivery.rest(history):
                self.rest(partition, Released(span, history, avoid), now + seconds)
            elif delivery.batch is None:
                partition.released[span.first] = Released(span, history, avoid)
            else:
                for kept in self._slicing.keep(partition, delivery.batch, [span]):
                    # Split a run with failed deliveries: the next one must count for a single batch.
                    for piece in singles(kept) if history.blame else (kept,):
                        self._dead_letters.put_back(partition, Available(piece, history, avoid))

    def still_wanted(self, partition: Partition, parts: list[tuple[Span, History]]) -> list[tuple[Span, History]]:
        """Returns the parts of released records that are to be delivered again. Those of a cancelled replay are not:
        the group has acknowledged them before, and only a member that held them could still acknowledge them again."""
        replayed = partition.ledger.replayed
        if replayed is None or not replayed.is_cancelled:
            return parts
        dropped = [span for span, _ in parts if replayed.has(span)]
        for span in dropped:
            partition.ledger.settle_replayed(span.first, span.last)
        self._distribution.touched.add(partition)
        return [(span, history) for span, history in parts if span not in dropped]

    def rest(self, partition: Partition, released: Released, until: float) -> None:
        """Withholds a released span from all members until a time."""
        partition.resting[released.span.first] = released
        self._timers.at(until, partial(self._rested, partition, released))

    def _count(self, partition: Partition, parts: list[tuple[Span, History]]) -> None:
        """Stores the delivery counts of released spans, so that a restart does not forget how often they were
        delivered, and into which parts they were cut."""
        for span, history in parts if self._redelivery.limit is not None else ():
            if history.count:
                partition.ledger.set_delivery_count(span, history.count)
                self._distribution.touched.add(partition)

    def _rested(self, partition: Partition, released: Released, now: float) -> None:
        if partition.resting.get(released.span.first) is released:
            del partition.resting[released.span.first]
            partition.released[released.span.first] = released
            self._rereads.pump(partition)


def _first_record_of(delivery: Delivery) -> int:
    return delivery.first_record


def _can_be_cut(delivery: Delivery) -> bool:
    """Returns whether its records can be told apart. For records that must be read again, this shows only then."""
    return len(delivery) > 1 and (delivery.batch is None or can_be_cut(delivery.batch))
