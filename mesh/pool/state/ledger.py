"""The ledger of one upstream partition: what of it was received, and what of that is settled.

An offset is *settled* when nobody has to process it any more: its record was acknowledged, or there is no record. The
lowest offset that is not settled is the committable one. Every operation costs O(log spans).

An offset without a record (a control record, aborted data, a gap that compaction left) counts with the batch behind it,
so that small transactions make no run of their own each. It is settled by itself only where nothing below it is open,
where there are very many of them, and where leases hold some of what comes, or gave it back.

Every acknowledgement, and every change of what is leased or counted, makes a new *version*. A version is stored when a
commit that was made of it, or of a later one, is stored upstream; what did not fit into the metadata of that commit is
not. Offsets without records make none: a reader of the log finds out about them by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from sortedcontainers import SortedDict, SortedSet

from mesh.pool.state.delivery_counts import Counted, DeliveryCounts
from mesh.records.batch import Batch
from mesh.records.runs import MOST_EMPTY, keep_spans
from mesh.records.sorted_spans import around, before
from mesh.records.spans import CommitPosition, Span

NOTHING = CommitPosition(-1)


class Ledger:
    """Offsets of one upstream partition, from the position at which its group stood when it was assigned.

    committable: the lowest offset that is not settled; what may be committed upstream.
    received: the next offset to come from the engine.
    stored: what is known to be committed upstream, NOTHING if nothing is.
    """

    __slots__ = (
        "_acknowledged",
        "_counts",
        "_covered",
        "_empty_from",
        "_known",
        "_settled",
        "_stored_version",
        "committable",
        "received",
        "stored",
        "version",
    )

    def __init__(
        self,
        position: int,
        stored: CommitPosition = NOTHING,
        settled: Iterable[Span] = (),
        counts: Iterable[Counted] = (),
    ) -> None:
        """settled: spans above `position` that were settled and stored in an earlier life; counts: what was delivered
        in vain in one."""
        self.committable = position
        self.received = position
        self.stored = stored
        self.version = 0
        self._settled: SortedDict[int, int] = SortedDict()
        self._acknowledged: SortedSet[int] = SortedSet()
        """Where those runs begin in which something was acknowledged; the others are empty."""
        self._empty_from: int | None = None
        """Where the offsets without records begin that end at `received`, and count with what comes next."""
        self._covered: int | None = None
        self._counts = DeliveryCounts(counts)
        for span in settled:
            self.settle(span.first, span.last)
        self._stored_version = self.version if stored.offset >= position else -1
        self._known = self.highest if stored.leader_epoch >= 0 else -1

    @property
    def spans(self) -> list[Span]:
        """The settled spans above the committable offset, ascending, never adjacent."""
        return list(self)

    def __iter__(self) -> Iterator[Span]:
        return (Span(first, last) for first, last in self._settled.items())

    @property
    def acknowledged(self) -> Iterator[Span]:
        """Those of the settled spans in which something was acknowledged, ascending."""
        return (Span(first, self._settled[first]) for first in self._acknowledged)

    @property
    def highest(self) -> int:
        """The highest settled offset, or the one below the committable."""
        return int(self._settled.peekitem(-1)[1]) if self._settled else self.committable - 1

    @property
    def highest_acknowledged(self) -> int:
        """The end of the highest run in which something was acknowledged, or the offset below the committable."""
        return int(self._settled[self._acknowledged[-1]]) if self._acknowledged else self.committable - 1

    def has_read(self, highest: int) -> bool:
        """Whether the engine has read all that is settled, or its epoch is stored, and all up to `highest`. Leases go
        ahead of the engine."""
        return max(self.highest, highest) < max(self.received, self._known + 1)

    def know(self, offset: int) -> None:
        """The leader epoch that is stored speaks of this offset, too."""
        if self._known >= 0 or self.stored.leader_epoch >= 0:
            self._known = max(self._known, offset)

    def receive(self, first: int, last: int, at_once: bool = False) -> list[Span]:
        """Take note of a batch that holds [first, last]; returns what of it is new and to be processed, with the
        offsets in front of it that have no record.

        at_once: settle those, instead of counting them with the batch.
        """
        if last < self.received:
            return []
        begin = first = max(first, self.received)
        if (empty_from := self._take_empty()) < first:
            if at_once or empty_from <= self.committable or first - empty_from > MOST_EMPTY:
                self.settle_empty(empty_from, first - 1)
            else:
                begin = empty_from
        self.received = last + 1
        return self.unsettled(begin, last)

    def reach(self, offset: int, at_once: bool = False) -> None:
        """Everything below `offset` was received or does not exist. at_once: settle what does not exist, instead of
        counting it with the batch that comes next."""
        if offset <= self.received:
            return
        empty_from, self.received = self._take_empty(), offset
        if at_once or empty_from <= self.committable or offset - empty_from > MOST_EMPTY:
            self.settle_empty(empty_from, offset - 1)
        else:
            self._empty_from = empty_from

    def settle(self, first: int, last: int) -> None:
        """Nobody has to process [first, last] any more; what is settled already stays so."""
        if last >= self.committable:
            self.version += 1
            self._settle(first, last, True)

    def settle_empty(self, first: int, last: int) -> None:
        """There is no record in [first, last], or none any more."""
        if last >= self.committable:
            self._settle(first, last, False)

    def _take_empty(self) -> int:
        """Where the offsets begin that were not received, or were and have no record."""
        empty_from, self._empty_from = self._empty_from, None
        return self.received if empty_from is None else empty_from

    def _settle(self, first: int, last: int, acknowledged: bool) -> None:
        first = max(first, self.committable)
        if self._counts:
            self._counts.forget(Span(first, last))
        spans = self._settled
        lower = before(spans, first)
        if lower is not None and spans[lower] >= first - 1:
            first = lower
        while (start := next(spans.irange(first, last + 1), None)) is not None:
            last = max(last, spans.pop(start))
            if start in self._acknowledged:
                self._acknowledged.remove(start)
                acknowledged = True
        if first > self.committable:
            spans[first] = last
            if acknowledged:
                self._acknowledged.add(first)
            return
        self.committable = last + 1
        if self._empty_from is not None and self._empty_from <= self.committable:
            self.settle_empty(self._take_empty(), self.received - 1)

    def is_settled(self, offset: int) -> bool:
        return self.is_all_settled(Span(offset, offset))

    def is_all_settled(self, span: Span) -> bool:
        return not self.unsettled(span.first, span.last)

    def unsettled(self, first: int, last: int) -> list[Span]:
        """What of [first, last] is not settled, ascending."""
        found: list[Span] = []
        position = max(first, self.committable)
        for start in around(self._settled, position):
            if start > last or position > last:
                break
            if start > position:
                found.append(Span(position, start - 1))
            position = max(position, self._settled[start] + 1)
        if position <= last:
            found.append(Span(position, last))
        return found

    def truncate(self, offset: int) -> None:
        """From `offset` on it is another log: nothing of it was received, or settled."""
        self.version += 1
        for first in list(self._settled.irange(offset)):
            del self._settled[first]
            self._acknowledged.discard(first)
        lower = before(self._settled, offset)
        if lower is not None:
            self._settled[lower] = min(self._settled[lower], offset - 1)
        self._counts.forget(Span(offset, sys.maxsize))
        if self._empty_from is not None and self._empty_from >= offset:
            self._empty_from = None
        self.committable = min(self.committable, offset)
        self.received = min(self.received, offset)
        self._known = min(self._known, offset - 1)

    # What was delivered in vain

    @property
    def counts(self) -> DeliveryCounts:
        """Of what is not settled."""
        return self._counts

    def count(self, span: Span, count: int) -> None:
        """This span was delivered so often in vain; that is stored, too."""
        self.version += 1
        self._counts.note(span, count)

    # What is stored upstream

    def leases_changed(self) -> None:
        """What is leased of the partition stands in the metadata of its commit as well."""
        self.version += 1

    def are_leases_stored(self, version: int) -> bool:
        """Whether what was leased in `version` is stored; leases are stored whole, or nothing is."""
        return self._stored_version >= version and (self._covered is None or self._covered >= 0)

    @property
    def needs_storing(self) -> bool:
        """Whether there is something that the commit which is stored does not say, and no reader of the log finds."""
        return self._stored_version < self.version

    @property
    def is_behind(self) -> bool:
        """Whether all that was received is settled, and the offset that is stored lies below it."""
        return self.stored.offset < self.committable >= self.received

    def is_stored(self, version: int, offset: int) -> bool:
        """Whether an offset that was settled in `version` is stored as settled: below what is committed whatever the
        metadata says, or as it says."""
        is_told = self._stored_version >= version and (self._covered is None or offset < self._covered)
        return is_told or offset < self.stored.offset

    def store(self, version: int, position: CommitPosition, covered: int | None) -> None:
        """A commit made of `version` is stored, and with it everything settled below `covered`; None for all."""
        self.stored, self._stored_version, self._covered = position, version, covered


def keep_unsettled(ledger: Ledger, batch: Batch, spans: Sequence[Span]) -> list[Batch]:
    """What of a batch, or of a run, lies in these spans, ascending; what holds no record is settled, since there is
    nothing to process."""
    pieces = keep_spans(batch, spans)
    if len(pieces) == 1 and pieces[0] is batch:
        return pieces
    left = iter(pieces)
    piece = next(left, None)
    for span in spans:
        position = span.first
        while piece is not None and piece.first <= span.last:
            if piece.first > position:
                ledger.settle_empty(position, piece.first - 1)
            position = piece.last + 1
            piece = next(left, None)
        if position <= span.last:
            ledger.settle_empty(position, span.last)
    return pieces
