"""The window of a member in one partition: the records that it was sent and has not committed. It maps virtual offsets
to upstream spans.

Inside a delivery, virtual and upstream offsets differ by a constant. So a commit in the middle of a batch, or a span
that is read again in other batches, needs no bookkeeping by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sortedcontainers import SortedDict

from mesh.apis.answers import Ticket
from mesh.pool.common.history import UNSENT, History
from mesh.pool.state.slots import Slot
from mesh.records.batch import CorruptBatch, RecordBatch, first_record, last_record
from mesh.records.runs import batch_at, from_offset, split
from mesh.records.sorted_spans import around, before
from mesh.records.spans import Span


@dataclass(slots=True, eq=False)
class Available:
    """A batch that waits for a member.

    history: the history of its span before this delivery. avoid: the slot of the member from which it was taken, if
    that member lives on; others get it first.
    """

    batch: RecordBatch
    history: History = UNSENT
    avoid: Slot | None = None

    def __len__(self) -> int:
        return self.batch.last - self.batch.first + 1

    @property
    def first(self) -> int:
        return self.batch.first

    @property
    def last(self) -> int:
        return self.batch.last

    @property
    def span(self) -> Span:
        return Span(self.batch.first, self.batch.last)

    @property
    def size(self) -> int:
        return len(self.batch.data)


@dataclass(slots=True, eq=False)
class View(Available):
    """Some offsets of a single batch that wait for a member. Other offsets of it are held or settled.

    Its bytes are those of the whole batch. A share member learns which offsets it has; for any other member the batch
    is cut.
    """

    part: Span = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.part)

    @property
    def first(self) -> int:
        return self.part.first

    @property
    def last(self) -> int:
        return self.part.last

    @property
    def span(self) -> Span:
        return self.part


def available_of(batch: RecordBatch, span: Span, history: History, avoid: Slot | None = None) -> Available:
    """Returns the available part of a batch or run: all of it, or part of a single batch
    (`mesh.records.runs.batches_with_spans`)."""
    if span.first == batch.first and span.last == batch.last:
        return Available(batch, history, avoid)
    return View(batch, history, avoid, part=span)


@dataclass(slots=True, eq=False)
class Delivery:
    """One run of upstream offsets [first, last] that a member holds. `virtual` is the virtual offset of `first`.

    batch: its bytes; None once the replay budget has dropped them, then it is read again on request. since: when it was
    sent, in seconds. records_end: the upstream offset behind its last record, once known. Compaction removed the
    records between that and `last`, and clients commit no further than their records.
    """

    virtual: int
    first: int
    last: int
    batch: RecordBatch | None
    history: History
    held: bool = True
    since: float = 0.0
    records_end: int | None = None

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def end(self) -> int:
        return self.virtual + len(self)

    @property
    def span(self) -> Span:
        return Span(self.first, self.last)

    @property
    def first_record(self) -> int:
        """The upstream offset of its first record, as far as known. Offsets without a record may come before it."""
        if self.batch is None:
            return self.first
        batch = from_offset(self.batch, self.first)
        try:
            return min(first_record(split(batch, 1)[0] if batch.marks else batch, self.first), self.last)
        except CorruptBatch:
            return self.first

    @property
    def has_records(self) -> bool:
        """True if the part that is left has a record, as far as known."""
        if self.records_end is None and self.batch is not None:
            batch = from_offset(self.batch, self.first)
            if batch.marks:
                return True
            self._look_for_end(batch)
        return self.records_end is None or self.first < self.records_end

    def strip(self) -> None:
        """Drops the bytes."""
        if self.batch is not None:
            self._look_for_end(batch_at(self.batch, self.last))
            self.batch = None

    def _look_for_end(self, last: RecordBatch) -> None:
        try:
            self.records_end = min(last_record(last), self.last) + 1
        except CorruptBatch:
            self.records_end = self.last + 1

    def base_offset(self, batch: RecordBatch) -> int:
        """Returns the virtual offset of the record with offset delta 0 in a batch of this delivery."""
        return self.virtual + batch.base - self.first


class Window:
    """The records of one partition that one member holds, and its position.

    * committed: the position that OffsetFetch answers. Everything below it is settled or was taken away.
    * end: the virtual offset after the last record sent.
    * held: the number of upstream offsets that the member holds.
    * fetch: the newest parked Fetch that is answered from here.
    * acknowledged: the highest upstream offset that the member ever settled, with the version of the ledger then.
    * awaits_join: whether the fenced member was asked to join again. It gets no records until it has joined, since it
      could not commit them.
    * is_fenced: whether the partition moved away while the member held or had unstored records, and the member has not
      started again. It may still process them, but its commits do not count.
    """

    __slots__ = ("_deliveries", "acknowledged", "awaits_join", "committed", "end", "fetch", "held", "is_fenced")

    def __init__(self, start: int) -> None:
        self.committed = start
        self.end = start
        self.held = 0
        self.fetch: Ticket | None = None
        self.acknowledged: tuple[int, int] | None = None
        self.awaits_join = False
        self.is_fenced = False
        self._deliveries: SortedDict[int, Delivery] = SortedDict()

    def __contains__(self, offset: int) -> bool:
        return self.committed <= offset <= self.end

    def __len__(self) -> int:
        return len(self._deliveries)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries.values())

    def append(self, available: Available, now: float = 0.0) -> Delivery:
        """Adds a batch that is sent to the member, at the next virtual offsets."""
        batch = available.batch
        delivery = Delivery(self.end, batch.first, batch.last, batch, available.history, since=now)
        self._deliveries[delivery.virtual] = delivery
        self.end = delivery.end
        self.held += len(delivery)
        return delivery

    def first(self) -> Delivery | None:
        """Returns the oldest delivery that the member holds."""
        return self._deliveries.peekitem(0)[1] if self._deliveries else None

    def holds_beyond(self, offset: int) -> bool:
        """Returns whether the member holds an offset at or above `offset`."""
        return self.held > 0 and bool(self._deliveries.peekitem(-1)[1].end > offset)

    def sent_from(self, offset: int) -> Iterator[Delivery]:
        """Returns the deliveries that hold `offset` or come after it, in order."""
        for virtual in around(self._deliveries, offset):
            delivery = self._deliveries[virtual]
            if delivery.end > offset:
                yield delivery

    def settle(self, offset: int) -> list[Span]:
        """Settles everything below `offset`, which the member committed (committed <= offset <= end). Returns the
        upstream spans."""
        settled: list[Span] = []
        while self._deliveries:
            virtual, delivery = self._deliveries.peekitem(0)
            if virtual >= offset:
                break
            count = min(delivery.end, offset) - virtual
            settled.append(Span(delivery.first, delivery.first + count - 1))
            del self._deliveries[virtual]
            self.held -= count
            if delivery.end > offset:
                delivery.first += count
                delivery.virtual = offset
                self._deliveries[offset] = delivery
            else:
                delivery.held = False
        if offset > self.committed:
            self.committed = offset
        return settled

    def settle_gap(self) -> list[Span]:
        """Settles the rest of the oldest delivery if the member has committed all its records."""
        oldest = self.first()
        return self.settle(oldest.end) if oldest is not None and not oldest.has_records else []

    def release(self) -> list[Delivery]:
        """Takes all records away. The member continues after the last record that it was sent."""
        released = list(self._deliveries.values())
        for delivery in released:
            delivery.held = False
        self._deliveries.clear()
        self.held = 0
        self.committed = self.end
        return released

    def truncate(self, offset: int) -> int:
        """Removes everything from `offset` on, where the log now has other records. Returns the number of removed
        offsets. The rest of a delivery that begins below must be read again."""
        held = self.held
        for delivery in [each for each in self if each.last >= offset]:
            if delivery.first >= offset:
                del self._deliveries[delivery.virtual]
                delivery.held = False
                self.held -= len(delivery)
            else:
                self.held -= delivery.last - offset + 1
                delivery.last, delivery.batch, delivery.records_end = offset - 1, None, None
        return held - self.held

    def joined_again(self) -> None:
        """Ends the fence: the member has joined again, and starts from its committed position."""
        self.is_fenced = self.awaits_join = False

    def fence(self) -> None:
        """Fences the member: it has lost all records that it was sent or has settled. Until it starts again, its
        commits are about these records."""
        self.is_fenced = True
        self.acknowledged = None

    def move(self, start: int) -> None:
        """Moves to the start of a new slot. Raises ValueError if the window holds records."""
        if self.held:
            raise ValueError("a window that holds spans cannot move")
        self.committed = self.end = start

    def jump(self, start: int) -> None:
        """Gives the next records offsets of a new slot; records that were sent keep theirs. Raises ValueError if that
        is a step back."""
        if start < self.end:
            raise ValueError(f"a window cannot jump back from {self.end} to {start}")
        self.end = start
        if not self.held:
            self.committed = start

    def strip(self, delivery: Delivery) -> None:
        """Drops the bytes of a delivery. Neighbours without bytes become one delivery."""
        delivery.strip()
        virtual = before(self._deliveries, delivery.virtual)
        if virtual is None:
            return
        lower: Delivery = self._deliveries[virtual]
        follows = lower.end == delivery.virtual and lower.last + 1 == delivery.first
        if lower.batch is None and follows and lower.history.blame == delivery.history.blame:
            del self._deliveries[delivery.virtual]
            delivery.held = False
            lower.last, lower.records_end = delivery.last, delivery.records_end

    def replace(self, delivery: Delivery, parts: list[Delivery]) -> int:
        """Replaces a delivery by batches that were read again. Returns the number of its offsets that are in none of
        them: these are gone upstream. Raises ValueError if the window has no such delivery."""
        if self._deliveries.pop(delivery.virtual, None) is not delivery:
            raise ValueError(f"no such delivery at {delivery.virtual}")
        delivery.held = False
        for part in parts:
            self._deliveries[part.virtual] = part
        lost = len(delivery) - sum(len(part) for part in parts)
        self.held -= lost
        return lost
