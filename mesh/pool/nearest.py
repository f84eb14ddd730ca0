"""Neighbours in sorted dictionaries of spans, by first offset.

A position in a sorted dictionary costs O(n) after every change (it keeps an index of positions, made anew then); its
ranges cost O(log n). So none of the large ones is asked for positions, but for its ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from sortedcontainers import SortedDict

Value = TypeVar("Value")


def before(spans: SortedDict[int, Value], offset: int) -> int | None:
    """The highest key below `offset`."""
    return next(spans.irange(None, offset, (True, False), reverse=True), None)


def around(spans: SortedDict[int, Value], offset: int) -> Iterator[int]:
    """The highest key at or below `offset`, if there is one, and all above it; nothing may be changed meanwhile."""
    first = next(spans.irange(None, offset, reverse=True), None)
    yield from spans.irange(offset if first is None else first)
