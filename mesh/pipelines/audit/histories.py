"""The history of the records of one partition, and the duration of each step, as facts from the journal's events. Pure.

Everything is a run of offsets, so the time grows with the events, not with the records. Facts count records: offsets
that the journal calls `empty` do not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from mesh.pipelines.audit.accounts import JournalEvent
from mesh.pipelines.audit.held_runs import HeldRuns
from mesh.pipelines.audit.intervals import Run, Runs, common, union, without

GIVEN: Final = frozenset({"delivered", "redelivered", "leased"})
ENDED: Final = frozenset({"acknowledged", "released", "expired", "dead_lettered", "given_up", "gone"})
VOID: Final = frozenset({"revoked", "reset"})


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact: something happened to a number of records. Times in ms, -1 if unknown.

    kind: `delivered`, `redelivered`, one of ENDED, `revoked`, or `open` for records still held at the end.
    who: the member.
    waited: from produce to the first delivery.
    held: from delivery to this event.
    whole: from produce to acknowledgement.
    """

    kind: str
    time: int
    who: str
    records: int
    waited: int = -1
    held: int = -1
    whole: int = -1


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run of offsets, first and last included, with its holder and the time since when it is held."""

    first: int
    last: int
    who: str
    lease: str
    since: int
    produced: int


class Records:
    """The records in runs of offsets. empty: the runs without records, disjoint and ascending."""

    __slots__ = ("_empty", "_sums")

    def __init__(self, empty: Runs) -> None:
        self._empty = empty
        self._sums = [0, *accumulate(last - first + 1 for first, last in empty)]

    def between(self, first: int, last: int) -> int:
        """Returns the number of records from `first` to `last`, both included."""
        return last - first + 1 - self._empty_below(last + 1) + self._empty_below(first)

    def _empty_below(self, offset: int) -> int:
        at = bisect_left(self._empty, (offset, offset))
        return self._sums[at] - (max(self._empty[at - 1][1] - offset + 1, 0) if at else 0)


def facts(events: Iterable[JournalEvent], until: int) -> Iterator[Fact]:
    """Yields the facts that follow from the events of one partition. events: in order. until: the end of the report, in
    ms since the epoch."""
    holdings: HeldRuns[HeldRun] = HeldRuns(_part)
    known = list(events)
    incarnations = records_of_incarnations(known)
    records = next(incarnations)
    for each in known:
        found = _facts_of(holdings, each, records)
        yield from (fact for fact in found if fact.records)
        if _incarnation_start(each) is not None:
            records = next(incarnations)
    rest = (_ended("open", until, piece, records) for piece in holdings.clear())
    yield from (fact for fact in rest if fact.records)


def records_of_incarnations(events: Sequence[JournalEvent]) -> Iterator[Records]:
    """Yields the records of the first log, and of each later log that an event starts.

    A report about a log counts for its whole time: a lease may have had records long before the mesh reads them. So a
    record that was compacted before another process read it again does not count, as in an audit.
    """
    empty: list[Runs] = [[]]
    begins: list[int] = []
    """The offset at which each further log of the partition begins."""
    for each in events:
        if each.event == "empty":
            empty[-1].append((each.first, each.last))
        elif (begin := _incarnation_start(each)) is not None:
            begins.append(begin)
            empty.append([])
    later: list[Runs] = [union(empty[-1])]
    for its, begin in zip(reversed(empty[:-1]), reversed(begins), strict=True):
        later.append(union([*its, *_below(later[-1], begin)]))
    earlier: Runs = []
    for its, begin in zip(reversed(later), [0, *begins], strict=True):
        earlier = union([*its, *_below(earlier, begin)])
        yield Records(earlier)


def _incarnation_start(event: JournalEvent) -> int | None:
    """Returns the offset from which an event starts another log; None if it does not."""
    if event.event == "reset":
        return 0
    return event.first if event.event == "truncated" and event.first <= event.last else None


def _below(runs: Sequence[Run], offset: int) -> Runs:
    return common(runs, [(0, offset - 1)])


def _facts_of(holdings: HeldRuns[HeldRun], each: JournalEvent, records: Records) -> Iterator[Fact]:
    if each.event in VOID:
        yield from (_ended("revoked", each.time, piece, records) for piece in holdings.clear())
    elif each.first > each.last:
        return
    elif each.event in GIVEN:
        yield from _given(holdings, each, records)
    elif each.event in ENDED:
        pieces = holdings.cut(each.first, each.last)
        yield from (_ended(each.event, each.time, piece, records) for piece in pieces)
        rest = without([(each.first, each.last)], [(piece.first, piece.last) for piece in pieces])
        yield from (Fact(each.event, each.time, each.member, records.between(*run)) for run in rest)
    elif each.event == "truncated":
        pieces = holdings.cut(each.first, each.last)
        yield from (_ended("revoked", each.time, piece, records) for piece in pieces)
    elif each.event == "corrected":
        for piece in holdings.cut(each.first, each.last):
            holdings.put(replace(piece, who=each.member))
    elif each.event == "known":
        holdings.cut(each.first, each.last)


def _given(holdings: HeldRuns[HeldRun], each: JournalEvent, records: Records) -> Iterator[Fact]:
    # The journal repeats a lease after a restart of the mesh; it is the same lease.
    same = [
        piece
        for piece in holdings.cut(each.first, each.last)
        if each.lease and (piece.who, piece.lease) == (each.member, each.lease)
    ]
    for piece in same:
        holdings.put(piece)
    again = each.event == "redelivered" or each.deliveries > 1
    kind = "redelivered" if again else "delivered"
    waited = max(each.time - each.produced, 0) if each.produced >= 0 and not again else -1
    for first, last in without([(each.first, each.last)], [(piece.first, piece.last) for piece in same]):
        holdings.put(HeldRun(first, last, each.member, each.lease, each.time, each.produced))
        yield Fact(kind, each.time, each.member, records.between(first, last), waited)


def _ended(kind: str, time: int, piece: HeldRun, records: Records) -> Fact:
    whole = max(time - piece.produced, 0) if kind == "acknowledged" and piece.produced >= 0 else -1
    many = records.between(piece.first, piece.last)
    return Fact(kind, time, piece.who, many, held=max(time - piece.since, 0), whole=whole)


def _part(piece: HeldRun, first: int, last: int) -> HeldRun:
    return replace(piece, first=first, last=last)
