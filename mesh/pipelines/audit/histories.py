"""What happened to the records of one partition, and how long each step took: the journal's events as facts. Pure.

Everything is a run of offsets, so the time it takes grows with the events and not with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mesh.pipelines.audit.accounts import Happened
from mesh.pipelines.audit.held_runs import HeldRuns
from mesh.pipelines.audit.intervals import without

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
    holdings: HeldRuns[Piece] = HeldRuns(_part)
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
        elif each.event == "truncated":
            yield from (_ended("revoked", each.time, piece) for piece in holdings.cut(each.first, each.last))
        elif each.event == "corrected":
            for piece in holdings.cut(each.first, each.last):
                holdings.put(replace(piece, who=each.member))
        elif each.event == "known":
            holdings.cut(each.first, each.last)
    yield from (_ended("open", until, piece) for piece in holdings.clear())


def _given(holdings: HeldRuns[Piece], each: Happened) -> Iterator[Fact]:
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


def _part(piece: Piece, first: int, last: int) -> Piece:
    return replace(piece, first=first, last=last)
