"""Neighbours in sorted dictionaries of spans, by first offset.

A position in a sorted dictionary costs O(n) after every change (it keeps an index of positions, made anew then); its
ranges cost O(log n). So none of the large ones is asked for positions, but for its ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from sortedcontainers import SortedDict

from mesh.records.spans import Span

Value = TypeVar("Value")


class HasSpan(Protocol):
    @property
    def span(self) -> Span: ...


Entry = TypeVar("Entry", bound=HasSpan)


def before(spans: SortedDict[int, Value], offset: int) -> int | None:
    """The highest key below `offset`."""
    return next(spans.irange(None, offset, (True, False), reverse=True), None)


def around(spans: SortedDict[int, Value], offset: int) -> Iterator[int]:
    """The highest key at or below `offset`, if there is one, and all above it; nothing may be changed meanwhile."""
    first = next(spans.irange(None, offset, reverse=True), None)
    yield from spans.irange(offset if first is None else first)


def overlapping(entries: SortedDict[int, Entry], spans: Iterable[Span]) -> list[Entry]:
    """Which of these, by their first offsets and none overlapping another, have something of the spans (ascending)."""
    found: list[Entry] = []
    for span in spans if entries else ():
        for first in around(entries, span.first):
            if first > span.last:
                break
            entry = entries[first]
            if entry.span.last >= span.first and not (found and found[-1] is entry):
                found.append(entry)
    return found
