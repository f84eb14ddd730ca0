"""How often spans of one partition were delivered in vain: what a restart of the mesh must not forget.

The history of each span goes with its records; this is a copy of the counts alone, by offset, for the commit metadata.
It is empty as long as nobody has died of anything. O(log spans) for each span.
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
    def __init__(self, counted: Iterable[Counted] = ()) -> None:
        self._spans: SortedDict[int, tuple[int, int]] = SortedDict()
        for each in counted:
            self.note(each.span, each.count)

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[Counted]:
        """Ascending, none of them overlapping."""
        return (Counted(Span(first, last), count) for first, (last, count) in self._spans.items())

    def note(self, span: Span, count: int) -> None:
        """This span has been delivered so often in vain, whatever was known of it."""
        self.forget(span)
        if count:
            self._spans[span.first] = (span.last, count)

    def forget(self, span: Span) -> None:
        """It is settled."""
        spans = self._spans
        for first in list(self._overlapping(span)):
            last, count = spans.pop(first)
            if first < span.first:
                spans[first] = (span.first - 1, count)
            if last > span.last:
                spans[span.last + 1] = (last, count)

    def _overlapping(self, span: Span) -> Iterator[int]:
        """Where those begin that have something of it."""
        for first in around(self._spans, span.first):
            if first > span.last:
                return
            if self._spans[first][0] >= span.first:
                yield first
