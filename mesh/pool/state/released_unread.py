"""Released spans that the engine has not brought yet, with their histories. A lease released them before they were
received, or a member did before the mesh was restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sortedcontainers import SortedDict

from mesh.pool.common.history import UNSENT, History
from mesh.records.sorted_spans import around
from mesh.records.spans import Span


class ReleasedUnread:
    """The released spans of one partition that were not read yet. No offset is in two of them. Operations cost O(log
    spans) for each span."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: SortedDict[int, tuple[int, History]] = SortedDict()

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[tuple[Span, History]]:
        """Yields the spans with their histories, ascending."""
        return ((Span(first, last), history) for first, (last, history) in self._spans.items())

    @property
    def highest(self) -> int:
        """The highest offset; -1 if there is none."""
        return int(self._spans.peekitem(-1)[1][0]) if self._spans else -1

    def note(self, span: Span, history: History) -> None:
        """Keeps the history of a span. Where it has a history already, the worse one counts."""
        for part, known in self.take([span]):
            worse = known if known.blame > history.blame else history
            if worse != UNSENT:
                self._spans[part.first] = (part.last, worse)

    def take(self, spans: Iterable[Span]) -> list[tuple[Span, History]]:
        """Removes these spans. Returns their parts with their histories, ascending. UNSENT stands for unknown parts."""
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
        """Forgets offsets below `offset`: they have no record."""
        if self._spans and offset > 0:
            self._cut(Span(0, offset - 1))

    def forget_from(self, offset: int) -> None:
        """Forgets offsets from `offset` on, where the log now has other records."""
        self._cut(Span(offset, max(self.highest, offset)))

    def clear(self) -> None:
        self._spans.clear()

    def _cut(self, span: Span) -> list[tuple[Span, History]]:
        """Removes the known parts of a span, and returns them, ascending."""
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
