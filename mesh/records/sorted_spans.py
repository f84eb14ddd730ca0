"""Finds neighbours in sorted dictionaries of spans, by first offset.

A lookup by position costs O(n) after every change, since the dictionary's index of positions is made again. Ranges cost
O(log n). So large dictionaries are used only by ranges and ends.
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
    """Returns the highest key below `offset`; None if there is none."""
    return next(spans.irange(None, offset, (True, False), reverse=True), None)


def around(spans: SortedDict[int, Value], offset: int) -> Iterator[int]:
    """Returns the highest key at or below `offset`, if there is one, and all keys above it. The dictionary must not be
    changed meanwhile."""
    first = next(spans.irange(None, offset, reverse=True), None)
    yield from spans.irange(offset if first is None else first)


def overlapping(entries: SortedDict[int, Entry], spans: Iterable[Span]) -> list[Entry]:
    """Returns the entries that overlap these spans (ascending). The entries are by first offset, none overlapping
    another."""
    found: list[Entry] = []
    for span in spans if entries else ():
        for first in around(entries, span.first):
            if first > span.last:
                break
            entry = entries[first]
            if entry.span.last >= span.first and not (found and found[-1] is entry):
                found.append(entry)
    return found
