"""Spans that the engine has yet to bring, and their histories: leases gave them up before they were received, or
members did before the mesh was restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sortedcontainers import SortedDict

from mesh.pool.common.history import UNSENT, History
from mesh.records.sorted_spans import around
from mesh.records.spans import Span


class ReleasedUnread:
    """Of one partition; no offset is in two of them. O(log spans) for each span."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: SortedDict[int, tuple[int, History]] = SortedDict()

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[tuple[Span, History]]:
        """Ascending."""
        return ((Span(first, last), history) for first, (last, history) in self._spans.items())

    @property
    def highest(self) -> int:
        """The highest offset, -1 for none."""
        return int(self._spans.peekitem(-1)[1][0]) if self._spans else -1

    def note(self, span: Span, history: History) -> None:
        """Keep the history of a span; of what is known already the worse of both counts."""
        for part, known in self.take([span]):
            worse = known if known.blame > history.blame else history
            if worse != UNSENT:
                self._spans[part.first] = (part.last, worse)

    def take(self, spans: Iterable[Span]) -> list[tuple[Span, History]]:
        """The histories of these, ascending as they are, UNSENT for what is not known; that is forgotten here."""
        found: list[tuple[Span, History]] = []
        for span in spans:
            position = span.first
            for part, history in self._cut(span):
                if part.first > position:
                    found.append((Span(position, part.first - 1), UNSENT))
                found.append((part, history))
                position = part.last + 1
            if position <= span.last:
                found.append((Span(position, span.last), UNSENT))
        return found

    def forget_below(self, offset: int) -> None:
        """Of what is left below it there is no record."""
        if self._spans and offset > 0:
            self._cut(Span(0, offset - 1))

    def forget_from(self, offset: int) -> None:
        """There are other records from this offset on."""
        self._cut(Span(offset, max(self.highest, offset)))

    def clear(self) -> None:
        self._spans.clear()

    def _cut(self, span: Span) -> list[tuple[Span, History]]:
        """What is known of a span, ascending; that is forgotten."""
        spans, found = self._spans, []
        for first in list(self._overlapping(span)):
            last, history = spans.pop(first)
            if first < span.first:
                spans[first] = (span.first - 1, history)
            if last > span.last:
                spans[span.last + 1] = (last, history)
            found.append((Span(max(first, span.first), min(last, span.last)), history))
        return found

    def _overlapping(self, span: Span) -> Iterator[int]:
        for first in around(self._spans, span.first):
            if first > span.last:
                return
            if self._spans[first][0] >= span.first:
                yield first
