"""The holders of offsets of one partition, according to a journal. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class OfOffsets(Protocol):
    """Anything that concerns a run of offsets, first and last included."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...


Held = TypeVar("Held", bound=OfOffsets)


class HeldRuns(Generic[Held]):
    """The runs of offsets that are held, disjoint and ascending. part: returns the same run limited to a first and a
    last offset. held: the runs at the beginning, disjoint and ascending, too."""

    def __init__(self, part: Callable[[Held, int, int], Held], held: Iterable[Held] = ()) -> None:
        self._part = part
        self._held = list(held)
        self._firsts = [each.first for each in self._held]

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held)

    def put(self, run: Held) -> None:
        """Adds a run at offsets that are not held."""
        at = bisect_right(self._firsts, run.first)
        self._firsts.insert(at, run.first)
        self._held.insert(at, run)

    def cut(self, first: int, last: int) -> list[Held]:
        """Takes these offsets out, and returns the parts of runs that held them."""
        begin = bisect_right(self._firsts, first)
        if begin and self._held[begin - 1].last >= first:
            begin -= 1
        end = max(bisect_right(self._firsts, last), begin)
        taken = self._held[begin:end]
        if not taken:
            return []
        lower, upper = taken[0], taken[-1]
        left = [self._part(lower, lower.first, first - 1)] if lower.first < first else []
        if upper.last > last:
            left.append(self._part(upper, last + 1, upper.last))
        self._held[begin:end] = left
        self._firsts[begin:end] = [each.first for each in left]
        return [self._part(each, max(each.first, first), min(each.last, last)) for each in taken]

    def clear(self) -> list[Held]:
        """Takes all runs out, and returns them."""
        held, self._held, self._firsts = self._held, [], []
        return held
