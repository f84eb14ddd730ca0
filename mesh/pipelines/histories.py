"""What happened to the records of one partition, and how long each step took: the journal's events as facts. Pure.

Everything is a run of offsets, so the time it takes grows with the events and not with the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mesh.pipelines.accounts import Happened
from mesh.pipelines.intervals import without

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


def facts(events: Iterable[Happened], until: int) -> Iterator[Fact]:
    """events: of one partition, in their order. until: when the report ends, ms since the epoch."""
    holdings = _Holdings()
    for each in events:
        if each.event in VOID:
            yield from (_ended("revoked", each.time, piece) for piece in holdings.clear())
        elif each.first > each.last:
            continue
        elif each.event in GIVEN:
            yield from _given(holdings, each)
        elif each.event in ENDED:
            pieces = holdings.cut(each.first, each.last)
            yield from (_ended(each.event, each.time, piece) for piece in pieces)
            rest = without([(each.first, each.last)], [(piece.first, piece.last) for piece in pieces])
            yield from (Fact(each.event, each.time, each.member, last - first + 1) for first, last in rest)
        elif each.event == "corrected":
            for piece in holdings.cut(each.first, each.last):
                holdings.put(replace(piece, who=each.member))
        elif each.event == "known":
            holdings.cut(each.first, each.last)
    yield from (_ended("open", until, piece) for piece in holdings.clear())


def _given(holdings: _Holdings, each: Happened) -> Iterator[Fact]:
    # A lease is told once more after a restart of the mesh: it goes on as it was.
    same = [
        piece
        for piece in holdings.cut(each.first, each.last)
        if each.lease and (piece.who, piece.lease) == (each.member, each.lease)
    ]
    for piece in same:
        holdings.put(piece)
    again = each.event == "redelivered" or each.deliveries > 1
    waited = max(each.time - each.produced, 0) if each.produced >= 0 and not again else -1
    for first, last in without([(each.first, each.last)], [(piece.first, piece.last) for piece in same]):
        holdings.put(Piece(first, last, each.member, each.lease, each.time, each.produced))
        yield Fact("redelivered" if again else "delivered", each.time, each.member, last - first + 1, waited)


def _ended(kind: str, time: int, piece: Piece) -> Fact:
    whole = max(time - piece.produced, 0) if kind == "acknowledged" and piece.produced >= 0 else -1
    return Fact(kind, time, piece.who, piece.last - piece.first + 1, held=max(time - piece.since, 0), whole=whole)


class _Holdings:
    """Disjoint pieces, ascending."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def put(self, piece: Piece) -> None:
        """Where nothing is held."""
        self._pieces.insert(bisect_right(self._pieces, piece.first, key=_first), piece)

    def cut(self, first: int, last: int) -> list[Piece]:
        """Take out what is held of these offsets."""
        begin = bisect_right(self._pieces, first, key=_first)
        if begin and self._pieces[begin - 1].last >= first:
            begin -= 1
        end = max(bisect_right(self._pieces, last, key=_first), begin)
        taken = self._pieces[begin:end]
        if not taken:
            return []
        left = [replace(taken[0], last=first - 1)] if taken[0].first < first else []
        if taken[-1].last > last:
            left.append(replace(taken[-1], first=last + 1))
        self._pieces[begin:end] = left
        return [replace(each, first=max(each.first, first), last=min(each.last, last)) for each in taken]

    def clear(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces


def _first(piece: Piece) -> int:
    return piece.first
