"""The ledger of one upstream partition: its received and its settled offsets.

An offset is *settled* when its record was acknowledged, or when it has no record. The lowest unsettled offset is the
committable one. Every operation costs O(log spans).

An offset without a record is a control record, aborted data, or a gap that compaction left. It is settled together with
the batch behind it. Otherwise each small transaction would make a run of its own. It is settled alone only if nothing
below it is unsettled, if there are very many such offsets, or if leases hold or returned records of the partition.

Every acknowledgement, and every change of leases or delivery counts, makes a new *version*. A version is stored when a
commit of it, or of a later one, is stored upstream, except for parts that did not fit into the metadata. Offsets
without records make no version, because a reader of the log finds them again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from sortedcontainers import SortedDict, SortedSet

from mesh.pool.state.delivery_counts import Counted, DeliveryCounts
from mesh.pool.state.replayed import Replayed
from mesh.records.batch import RecordBatch
from mesh.records.runs import MOST_EMPTY, cut_to_spans
from mesh.records.sorted_spans import around, before
from mesh.records.spans import CommitPosition, Span

NOTHING = CommitPosition(-1)


class Ledger:
    """The offsets of one upstream partition, from the committed position at which this process began to read it.

    * committable: the lowest unsettled offset. It may be committed upstream.
    * received: the next offset that the engine will bring.
    * stored: the position that is known to be committed upstream; NOTHING if there is none.
    * replayed: settled offsets that are processed once more; None if there are none.
    """

    __slots__ = (
        "_acknowledged",
        "_counts",
        "_covered",
        "_empty_from",
        "_epoch_covers",
        "_settled",
        "_stored_version",
        "_unstored_replay",
        "committable",
        "received",
        "replayed",
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
        """settled: spans above `position` that are settled according to the stored commit. counts: delivery counts from
        there."""
        self.committable = position
        self.received = position
        self.stored = stored
        self.version = 0
        self._settled: SortedDict[int, int] = SortedDict()
        self._acknowledged: SortedSet[int] = SortedSet()
        """The first offsets of the settled spans in which a record was acknowledged. The other spans have no
        records."""
        self._empty_from: int | None = None
        """The first of the offsets without records directly below `received`. They count with the next batch."""
        self._covered: int | None = None
        self._counts = DeliveryCounts(counts)
        self.replayed: Replayed | None = None
        self._unstored_replay: tuple[int, int] | None = None
        """The first and the last unstored version in which replayed offsets were settled."""
        for span in settled:
            self.settle(span.first, span.last)
        self._stored_version = self.version if stored.offset >= position else -1
        self._epoch_covers = self.highest if stored.leader_epoch >= 0 else -1

    @property
    def spans(self) -> list[Span]:
        """The settled spans above the committable offset, ascending, never adjacent."""
        return list(self)

    def __iter__(self) -> Iterator[Span]:
        return (Span(first, last) for first, last in self._settled.items())

    @property
    def acknowledged(self) -> Iterator[Span]:
        """The settled spans in which a record was acknowledged, ascending."""
        return (Span(first, self._settled[first]) for first in self._acknowledged)

    @property
    def highest(self) -> int:
        """The highest settled offset, or the one below the committable offset."""
        return int(self._settled.peekitem(-1)[1]) if self._settled else self.committable - 1

    @property
    def highest_acknowledged(self) -> int:
        """The end of the highest settled span in which a record was acknowledged, or the offset below the committable
        one."""
        return int(self._settled[self._acknowledged[-1]]) if self._acknowledged else self.committable - 1

    def has_read(self, highest: int) -> bool:
        """Returns whether the engine has read, or the stored leader epoch covers, all settled offsets and all up to
        `highest`. Leases may be ahead of the engine."""
        return max(self.highest, highest) < max(self.received, self._epoch_covers + 1)

    def extend_epoch(self, offset: int) -> None:
        """Notes that the stored leader epoch is valid for this offset, too."""
        if self._epoch_covers >= 0 or self.stored.leader_epoch >= 0:
            self._epoch_covers = max(self._epoch_covers, offset)

    def receive(self, first: int, last: int, at_once: bool = False) -> list[Span]:
        """Notes a batch with the offsets [first, last]. Returns the new spans to process. They include the offsets
        before it that have no record.

        at_once: settles offsets without a record now, instead of counting them with the batch.
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
        """Notes that every offset below `offset` was received or has no record. at_once: settles those without a record
        now, instead of counting them with the next batch."""
        if offset <= self.received:
            return
        empty_from, self.received = self._take_empty(), offset
        if at_once or empty_from <= self.committable or offset - empty_from > MOST_EMPTY:
            self.settle_empty(empty_from, offset - 1)
        else:
            self._empty_from = empty_from

    def settle(self, first: int, last: int) -> None:
        """Settles [first, last]."""
        if self.replayed is not None:
            self.settle_replayed(first, last)
        if last >= self.committable:
            self.version += 1
            self._settle(first, last, True)

    def settle_empty(self, first: int, last: int) -> None:
        """Settles [first, last], in which no record is left."""
        if self.replayed is not None:
            self.settle_replayed(first, last)
        if last >= self.committable:
            self._settle(first, last, False)

    def settle_replayed(self, first: int, last: int) -> None:
        """Settles [first, last] of the replay, if there is one."""
        if self.replayed is not None and self.replayed.settle(first, last):
            self.version += 1
            before = self._unstored_replay
            self._unstored_replay = (before[0] if before is not None else self.version, self.version)

    def _take_empty(self) -> int:
        """Returns the first of the offsets without records directly below `received`, or `received` if there are none.
        Forgets it."""
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
        """Returns the unsettled parts of [first, last], ascending."""
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
        """Forgets everything from `offset` on, because the log now has other records there."""
        self.version += 1
        for first in list(self._settled.irange(offset)):
            del self._settled[first]
            self._acknowledged.discard(first)
        lower = before(self._settled, offset)
        if lower is not None:
            self._settled[lower] = min(self._settled[lower], offset - 1)
        self._counts.forget(Span(offset, sys.maxsize))
        if self.replayed is not None:
            self.replayed.truncate(offset)
        if self._empty_from is not None and self._empty_from >= offset:
            self._empty_from = None
        self.committable = min(self.committable, offset)
        self.received = min(self.received, offset)
        self._epoch_covers = min(self._epoch_covers, offset - 1)

    # Counts of deliveries

    @property
    def counts(self) -> DeliveryCounts:
        """The delivery counts of unsettled offsets."""
        return self._counts

    def set_delivery_count(self, span: Span, count: int) -> None:
        """Sets the number of deliveries in vain of a span. The count is stored upstream, except for replayed
        offsets."""
        if self.replayed is not None and self.replayed.has(span):
            return
        self.version += 1
        self._counts.note(span, count)

    # What is stored upstream

    def leases_changed(self) -> None:
        """Notes that the leases of the partition have changed, which are in the metadata of its commit as well."""
        self.version += 1

    def replay_changed(self, replayed: Replayed | None) -> None:
        """Notes that the replay of the partition has changed, which is in the metadata of its commit as well."""
        self.replayed = replayed
        self.version += 1

    def to_process(self, first: int, last: int) -> list[Span]:
        """Returns the parts of [first, last] that are to be processed, ascending: unsettled or replayed ones."""
        spans = self.unsettled(first, last)
        if self.replayed is not None:
            spans = sorted([*spans, *self.replayed.within(Span(first, last))], key=lambda span: span.first)
        return spans

    def are_leases_stored(self, version: int) -> bool:
        """Returns whether the leases of `version` are stored. Leases are stored completely or not at all."""
        return self._stored_version >= version and (self._covered is None or self._covered >= 0)

    @property
    def needs_storing(self) -> bool:
        """True if the stored commit lacks a change that no reader of the log can find."""
        return self._stored_version < self.version

    @property
    def is_behind(self) -> bool:
        """True if all received offsets are settled, and the stored offset lies below them."""
        return self.stored.offset < self.committable >= self.received

    def is_stored(self, version: int, offset: int) -> bool:
        """Returns whether an offset that was settled in `version` is stored as settled, by the committed offset or the
        metadata."""
        is_in_commit = self._stored_version >= version and (self._covered is None or offset < self._covered)
        if is_in_commit or offset >= self.stored.offset:
            return is_in_commit
        return self._unstored_replay is None or version < self._unstored_replay[0]

    def store(self, version: int, position: CommitPosition, covered: int | None) -> None:
        """Notes that a commit of `version` is stored upstream. It has all settled offsets below `covered`; None for all
        of them."""
        self.stored, self._stored_version, self._covered = position, version, covered
        if self._unstored_replay is not None and version >= self._unstored_replay[0]:
            last = self._unstored_replay[1]
            self._unstored_replay = (version + 1, last) if last > version else None


def keep_unsettled(ledger: Ledger, batch: RecordBatch, spans: Sequence[Span]) -> list[RecordBatch]:
    """Returns the parts of a batch or run in these spans (ascending). Offsets of the spans without a record are
    settled."""
    pieces = cut_to_spans(batch, spans)
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
