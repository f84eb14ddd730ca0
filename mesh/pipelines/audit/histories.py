"""What happened to the records of one partition, and how long each step took: the journal's events as facts. Pure.

Everything is a run of offsets, so the time it takes grows with the events and not with the records. What is counted are
records: a run of offsets that somebody was given counts without those that the journal says to have none (`empty`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from mesh.pipelines.audit.accounts import Happened
from mesh.pipelines.audit.held_runs import HeldRuns
from mesh.pipelines.audit.intervals import Run, Runs, common, union, without

GIVEN: Final = frozenset({"delivered", "redelivered", "leased"})
ENDED: Final = frozenset({"acknowledged", "released", "expired", "dead_lettered", "gone"})
VOID: Final = frozenset({"revoked", "reset"})


@dataclass(frozen=True, slots=True)
class Fact:
    """Something happened to so many records. Times in ms, -1 where that is not known.

    kind: `delivered`, `redelivered`, one of ENDED, `revoked`, or `open` for what is still held at the end. waited: from
    produce to the first delivery. held: from delivery to what happened. whole: from produce to acknowledgement.
    """

    kind: str
    time: int
    who: str
    records: int
    waited: int = -1
    held: int = -1
    whole: int = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of offsets in somebody's hands since then; both ends included."""

    first: int
    last: int
    who: str
    lease: str
    since: int
    produced: int


class Records:
    """Counts the records in runs of offsets. empty: runs that have none, disjoint and ascending."""

    __slots__ = ("_empty", "_sums")

    def __init__(self, empty: Runs) -> None:
        self._empty = empty
        self._sums = [0, *accumulate(last - first + 1 for first, last in empty)]

    def between(self, first: int, last: int) -> int:
        """Both included."""
        return last - first + 1 - self._empty_below(last + 1) + self._empty_below(first)

    def _empty_below(self, offset: int) -> int:
        at = bisect_left(self._empty, (offset, offset))
        return self._sums[at] - (max(self._empty[at - 1][1] - offset + 1, 0) if at else 0)


def facts(events: Iterable[Happened], until: int) -> Iterator[Fact]:
    """events: of one partition, in their order. until: when the report ends, ms since the epoch."""
    holdings: HeldRuns[Piece] = HeldRuns(_part)
    known = list(events)
    lives = records_of_lives(known)
    records = next(lives)
    for each in known:
        found = _facts_of(holdings, each, records)
        yield from (fact for fact in found if fact.records)
        if _life_from(each) is not None:
            records = next(lives)
    rest = (_ended("open", until, piece, records) for piece in holdings.clear())
    yield from (fact for fact in rest if fact.records)


def records_of_lives(events: Sequence[Happened]) -> Iterator[Records]:
    """For the log as it is at first, and for what it becomes by each event that makes it another one: its records.

    What is told of a log counts whenever it is told: a lease may have had long ago what the mesh reads now. So a record
    that was compacted before another process read it once more counts as none, as it does in an audit.
    """
    told: list[Runs] = [[]]
    begins: list[int] = []
    """From which offset on each log after the first is another one than that before it."""
    for each in events:
        if each.event == "empty":
            told[-1].append((each.first, each.last))
        elif (begin := _life_from(each)) is not None:
            begins.append(begin)
            told.append([])
    later: list[Runs] = [union(told[-1])]
    for its, begin in zip(reversed(told[:-1]), reversed(begins), strict=True):
        later.append(union([*its, *_below(later[-1], begin)]))
    earlier: Runs = []
    for its, begin in zip(reversed(later), [0, *begins], strict=True):
        earlier = union([*its, *_below(earlier, begin)])
        yield Records(earlier)


def _life_from(event: Happened) -> int | None:
    """The offset from which on an event makes the log another one."""
    if event.event == "reset":
        return 0
    return event.first if event.event == "truncated" and event.first <= event.last else None


def _below(runs: Sequence[Run], offset: int) -> Runs:
    return common(runs, [(0, offset - 1)])


def _facts_of(holdings: HeldRuns[Piece], each: Happened, records: Records) -> Iterator[Fact]:
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


def _given(holdings: HeldRuns[Piece], each: Happened, records: Records) -> Iterator[Fact]:
    # A lease is told once more after a restart of the mesh: it goes on as it was.
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
        holdings.put(Piece(first, last, each.member, each.lease, each.time, each.produced))
        yield Fact(kind, each.time, each.member, records.between(first, last), waited)


def _ended(kind: str, time: int, piece: Piece, records: Records) -> Fact:
    whole = max(time - piece.produced, 0) if kind == "acknowledged" and piece.produced >= 0 else -1
    many = records.between(piece.first, piece.last)
    return Fact(kind, time, piece.who, many, held=max(time - piece.since, 0), whole=whole)


def _part(piece: Piece, first: int, last: int) -> Piece:
    return replace(piece, first=first, last=last)
