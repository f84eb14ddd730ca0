"""The ledger of one upstream partition: what of it was received, and what of that is settled.

An offset is *settled* when nobody has to process it any more: its record was acknowledged, or there is no record
(control records, aborted data, compaction gaps). The lowest offset that is not settled is the committable one. Every
operation costs O(log spans).
"""

from __future__ import annotations

from sortedcontainers import SortedDict

from mesh.records.spans import Span


class Ledger:
    """Offsets of one upstream partition, from the position at which its group stood when it was assigned.

    committable: the lowest offset that is not settled; what may be committed upstream.
    received: the next offset to come from the engine.
    stored: what is known to be committed upstream.
    """

    __slots__ = ("_settled", "committable", "received", "stored")

    def __init__(self, position: int, stored: int) -> None:
        self.committable = position
        self.received = position
        self.stored = stored
        self._settled: SortedDict[int, int] = SortedDict()

    @property
    def spans(self) -> list[Span]:
        """The settled spans above the committable offset, ascending, never adjacent."""
        return [Span(first, last) for first, last in self._settled.items()]

    @property
    def outstanding(self) -> int:
        """How many received offsets are not settled."""
        return self.received - self.committable - sum(len(span) for span in self.spans)

    def receive(self, first: int, last: int) -> Span | None:
        """Take note of a batch that holds [first, last]; returns what of it is new, None when nothing is.

        Offsets that were left out between the last batch and this one do not exist upstream: they are settled.
        """
        if last < self.received:
            return None
        new = Span(max(first, self.received), last)
        if new.first > self.received:
            self.settle(self.received, new.first - 1)
        self.received = last + 1
        return new

    def reach(self, offset: int) -> None:
        """Everything below `offset` was received or does not exist."""
        if offset > self.received:
            self.settle(self.received, offset - 1)
            self.received = offset

    def settle(self, first: int, last: int) -> None:
        """Mark [first, last] as settled; what already is stays so."""
        if last < self.committable:
            return
        first = max(first, self.committable)
        spans = self._settled
        index = spans.bisect_left(first)
        if index > 0:
            before, end = spans.peekitem(index - 1)
            if end >= first - 1:
                first, last = before, max(last, end)
                del spans[before]
        index = spans.bisect_left(first)
        while index < len(spans):
            start, end = spans.peekitem(index)
            if start > last + 1:
                break
            last = max(last, end)
            del spans[start]
        if first == self.committable:
            self.committable = last + 1
        else:
            spans[first] = last

    def is_settled(self, offset: int) -> bool:
        if offset < self.committable:
            return True
        index = self._settled.bisect_right(offset) - 1
        return index >= 0 and bool(self._settled.peekitem(index)[1] >= offset)
