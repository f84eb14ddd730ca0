"""Delivery counts of one partition: how often spans were delivered in vain. They survive restarts of the mesh.

The history of each span is kept with its records. This is a copy of the counts alone, by offset, for the commit
metadata. It is empty as long as no member has died of a record. Each operation costs O(log spans) for each span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sortedcontainers import SortedDict

from mesh.records.sorted_spans import around
from mesh.records.spans import Span


@dataclass(frozen=True, slots=True)
class Counted:
    """A span that was delivered `count` times in vain."""

    span: Span
    count: int


class DeliveryCounts:
    """The spans of one partition that were delivered in vain, with their counts."""

    def __init__(self, counted: Iterable[Counted] = ()) -> None:
        self._spans: SortedDict[int, tuple[int, int]] = SortedDict()
        for each in counted:
            self.note(each.span, each.count)

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[Counted]:
        """Yields the counted spans, ascending, none of them overlapping."""
        return (Counted(Span(first, last), count) for first, (last, count) in self._spans.items())

    def note(self, span: Span, count: int) -> None:
        """Sets the number of deliveries in vain of a span, in place of any earlier count."""
        self.forget(span)
        if count:
            self._spans[span.first] = (span.last, count)

    def forget(self, span: Span) -> None:
        """Forgets the counts of a span, which is settled."""
        spans = self._spans
        for first in list(self._overlapping(span)):
            last, count = spans.pop(first)
            if first < span.first:
                spans[first] = (span.first - 1, count)
            if last > span.last:
                spans[span.last + 1] = (last, count)

    def _overlapping(self, span: Span) -> Iterator[int]:
        """Yields the first offsets of the counted spans that overlap this one."""
        for first in around(self._spans, span.first):
            if first > span.last:
                return
            if self._spans[first][0] >= span.first:
                yield first
