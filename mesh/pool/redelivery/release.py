"""What members give up, and where it goes: to the front of its partition, to rest first, or to the dead letters."""

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
        """Spans that a member holds go back to the front of their partitions; to others first, if it lives on."""
        changed: list[Partition] = []
        # Looked at before anything is freed: a record that was all the member held is to blame alone.
        held = member.in_flight
        avoid = member.slot if others_first and len(self._distribution.members) > 1 else None
        for source in windows:
            partition = self._partitions[source]
            deliveries = member.windows[source].release()
            for delivery in deliveries:
                self._distribution.free(member, len(delivery))
                if partition.ownership is not Ownership.UNASSIGNED:
                    # Clients work through a partition in order: what they stumbled over stands in the first.
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
        # Not before all is back: a member that lives on has its turn by all that it holds.
        for partition in changed:
            self._distribution.distribute(partition, now)
            self._rereads.pump(partition)
        if avoid is not None and changed:
            self._timers.at(now + self._others_first, lambda then: self.forgive(member, then))

    def forgive(self, member: Member, now: float) -> None:
        """The others had their time: a member may have again what was taken from it."""
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
        self._count(partition, parts)
        for span, history in parts:
            if seconds := self._redelivery.rest(history):
                self.rest(partition, Released(span, history, avoid), now + seconds)
            elif delivery.batch is None:
                partition.released[span.first] = Released(span, history, avoid)
            else:
                for kept in self._slicing.keep(partition, delivery.batch, [span]):
                    # Whatever counts against a run must not count against more than a batch of it.
                    for piece in singles(kept) if history.blame else (kept,):
                        self._dead_letters.put_back(partition, Available(piece, history, avoid))

    def rest(self, partition: Partition, released: Released, until: float) -> None:
        """Nobody is given this before then."""
        partition.resting[released.span.first] = released
        self._timers.at(until, partial(self._rested, partition, released))

    def _count(self, partition: Partition, parts: list[tuple[Span, History]]) -> None:
        """Only who gives records up needs to know after a restart how often they came, and how far they were cut."""
        for span, history in parts if self._redelivery.limit is not None else ():
            if history.count:
                partition.ledger.count(span, history.count)
                self._distribution.touched.add(partition)

    def _rested(self, partition: Partition, released: Released, now: float) -> None:
        if partition.resting.get(released.span.first) is released:
            del partition.resting[released.span.first]
            partition.released[released.span.first] = released
            self._rereads.pump(partition)


def _first_record_of(delivery: Delivery) -> int:
    return delivery.first_record


def _can_be_cut(delivery: Delivery) -> bool:
    """Of what has to be read again that is found out then."""
    return len(delivery) > 1 and (delivery.batch is None or can_be_cut(delivery.batch))
