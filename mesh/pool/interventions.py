"""Interventions of an operator in stuck records: settles them, makes them dead letters, or gives them to other members.

The member that holds such records loses all its records of their partition. It works through a partition in order, so
the records behind a stuck one do not proceed either. Other members get the released records first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from mesh.pool.common.delivery_events import DeliveryEventType, Holder
from mesh.pool.common.history import Cause, History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.fetch.serving import Serving
from mesh.pool.groups.members import Members
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Partition, Released
from mesh.pool.state.window import available_of
from mesh.records.batch import RecordBatch
from mesh.records.runs import batches_with_spans
from mesh.records.sorted_spans import overlapping
from mesh.records.span_lists import common, without
from mesh.records.spans import Span, UpstreamPartition

OPERATOR = "an operator"
"""The name that stands for the member in logs, journals and dead letters."""


class Action(Enum):
    """An action of an operator on a span of records."""

    SETTLE = "settle"
    """Settles the offsets, as if a member had committed them."""
    DEAD_LETTER = "bury"
    """Makes each record a dead letter."""
    RELEASE = "release"
    """Gives the records to other members."""


class NotPossible(Exception):
    """Raised when an action cannot be carried out. Nothing has been changed then. The message is one line with the
    reason."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The place of a run of unsettled offsets.

    * state: one of held, waiting, resting, leased, dead-lettering.
    * member: the name of the member that holds it; "" if no member does.
    * deliveries: the number of earlier deliveries in vain.
    * since: when the member got it, in seconds; None if no member has it.
    """

    span: Span
    state: str
    member: str = ""
    deliveries: int = 0
    since: float | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    span: Span
    history: History
    batch: RecordBatch | None


class Interventions:
    """The interventions of operators in the records of one pool."""

    def __init__(self, parts: PoolParts, serving: Serving, members: Members) -> None:
        self._settings = parts.settings
        self._outbox = parts.outbox
        self._serving = serving
        self._members = members

    def places(self, source: UpstreamPartition, span: Span) -> list[RunPlace]:
        """Returns the places of the unsettled offsets of a span, ascending. Raises NotPossible if this process does not
        own the partition, or has not read the span yet."""
        partition = self._partition(source, span)
        open_spans = partition.ledger.to_process(span.first, span.last)
        found = [
            replace(place, span=part)
            for place in self._all(partition)
            for each in open_spans
            if (part := common(place.span, each)) is not None
        ]
        return sorted(found, key=lambda place: place.span.first)

    def longest_held(self, member: str | None = None) -> tuple[UpstreamPartition, int] | None:
        """Returns the lowest unsettled offset of the records that have been held longest, by `member` or by any member.
        None if nothing is held."""
        found: tuple[float, UpstreamPartition, int] | None = None
        for source, partition in self._serving.partitions.items():
            for place in self._all(partition) if partition.is_active else ():
                if place.since is None or (member is not None and place.member != member):
                    continue
                if found is None or place.since < found[0]:
                    found = (place.since, source, place.span.first)
        return found[1:] if found is not None else None

    def preview(self, action: Action, source: UpstreamPartition, span: Span) -> list[RunPlace]:
        """Returns the places that `carry_out` would return, and changes nothing. Raises NotPossible."""
        places = self.places(source, span)
        self._refuse(action, places, span)
        return places

    def carry_out(self, action: Action, source: UpstreamPartition, span: Span, now: float) -> list[RunPlace]:
        """Carries out an action, and returns where the records were before. Raises NotPossible."""
        partition, places = self._partition(source, span), self.preview(action, source, span)
        held = list(self._holders(source, span))
        if action is Action.RELEASE:
            for member in held:
                self._release(member, source, now)
        else:
            self._take_out(partition, action, span, held, now)
        fields = {"partition": str(source), "span": str(span), "records": sum(len(place.span) for place in places)}
        self._outbox.report(f"records {_DONE[action]} by an operator", fields, "warning")
        return places

    def _partition(self, source: UpstreamPartition, span: Span) -> Partition:
        partition = self._serving.partitions.get(source)
        if partition is None or not partition.is_active:
            raise NotPossible(f"{source} is not assigned to this process")
        if span.last >= partition.ledger.received:
            raise NotPossible(
                f"offset {span.last} of {source} has not been read yet: {partition.ledger.received} is next"
            )
        return partition

    def _refuse(self, action: Action, places: list[RunPlace], span: Span) -> None:
        if not places:
            raise NotPossible(f"all of {span} is settled already")
        busy = next((place for place in places if place.state in {"leased", "dead-lettering"}), None)
        if busy is not None:
            raise NotPossible(f"{busy.span} is {busy.state}: wait until that is over")
        if action is Action.RELEASE and not any(place.member for place in places):
            raise NotPossible(f"no member holds any of {span}")
        if action is Action.DEAD_LETTER and self._settings.redelivery.limit is None:
            raise NotPossible("the pool has no dead_letters: settle the records instead")

    def _all(self, partition: Partition) -> Iterator[RunPlace]:
        source = partition.source
        for member in self._members:
            window = member.windows.get(source)
            for delivery in window or ():
                count = delivery.history.count
                yield RunPlace(delivery.span, "held", member.name, count, delivery.since)
            holding = member.share.by_partition.get(source) if member.share is not None else None
            for acquired in holding or ():
                yield RunPlace(acquired.span, "held", member.name, acquired.history.count, acquired.since)
        waiting = [(each.span, each.history) for each in partition.backlog.values()]
        waiting += [(each.span, each.history) for each in partition.released.values()]
        for reservation in partition.reservations:
            waiting += [(each.span, each.history) for each in reservation.records[partition]]
        for partition_fetch in partition.parked.values():
            waiting += [(each.span, each.history) for each in partition_fetch.collected or ()]
        yield from (RunPlace(span, "waiting", deliveries=history.count) for span, history in waiting)
        for resting in partition.resting.values():
            yield RunPlace(resting.span, "resting", deliveries=resting.history.count)
        yield from (RunPlace(leased.span, "leased") for leased in partition.leased.values())
        yield from (RunPlace(each.span, "dead-lettering") for each in partition.dead_lettering.values())

    def _holders(self, source: UpstreamPartition, span: Span) -> Iterator[Member]:
        for member in list(self._members):
            window = member.windows.get(source)
            holding = member.share.by_partition.get(source) if member.share is not None else None
            if any(common(each.span, span) for each in (*(window or ()), *(holding or ()))):
                yield member

    def _release(self, member: Member, source: UpstreamPartition, now: float) -> None:
        if member.share is not None:
            spans = [acquired.span for acquired in member.share.of(source)]
            self._serving.share_releases.release(member, source, spans, Cause.OPERATOR, now)
        else:
            self._serving.releases.release(member, [source], Cause.OPERATOR, now, others_first=True)
        self._serving.answer_complete(now)

    def _take_out(self, partition: Partition, action: Action, span: Span, held: list[Member], now: float) -> None:
        distribution, source = self._serving.distribution, partition.source
        distribution.suspend(partition)  # so that no member gets the records before they are taken out
        for fetch, partition_fetch in list(partition.parked.items()):
            if any(common(each.span, span) for each in partition_fetch.collected or ()):
                distribution.give_back(fetch, [partition_fetch])
        for member in held:
            self._release(member, source, now)
        distribution.suspend(partition)  # including records reserved for members between two Fetches
        for taken in (*self._from_backlog(partition, span), *_from_spans(partition, span)):
            if action is Action.DEAD_LETTER:
                history = replace(taken.history, member=OPERATOR, cause=Cause.OPERATOR)
                self._serving.dead_letters.give_up(partition, taken.batch, taken.span, history)
            else:
                partition.ledger.settle(taken.span.first, taken.span.last)
                kind, holder = DeliveryEventType.GIVEN_UP, Holder(OPERATOR)
                self._serving.delivery_events.add(kind, source, [taken.span], holder)
        self._serving.activate(partition, now)
        self._serving.rereads.pump(partition)

    def _from_backlog(self, partition: Partition, span: Span) -> list[_Taken]:
        backlogs, found = self._serving.distribution.backlogs, []
        for available in partition.backlog_in([span]):
            backlogs.take(partition, available)
            rest = without([available.span], [span])
            for batch, part in batches_with_spans(available.batch, rest):
                backlogs.put(partition, available_of(batch, part, available.history, available.avoid))
            its = common(available.span, span)
            assert its is not None
            found += [
                _Taken(part, available.history, batch) for batch, part in batches_with_spans(available.batch, [its])
            ]
        return found


_DONE = {Action.SETTLE: "settled", Action.DEAD_LETTER: "buried", Action.RELEASE: "released"}


def _from_spans(partition: Partition, span: Span) -> list[_Taken]:
    """Takes the part of a span that has no bytes here out of the partition. The rest of each affected entry may be read
    again at once."""
    found: list[_Taken] = []
    for entries in (partition.released, partition.resting):
        several: list[Released] = overlapping(entries, [span])
        for released in several:
            del entries[released.span.first]
            for rest in without([released.span], [span]):
                partition.released[rest.first] = Released(rest, released.history, released.avoid)
            its = common(released.span, span)
            assert its is not None
            found.append(_Taken(its, released.history, None))
    return found
