"""What a member was sent of one partition and has not committed: virtual offsets -> upstream spans.

Inside a delivery, virtual and upstream offsets differ by a constant, so a commit in the middle of a batch, and a span
read again in other batches, need no bookkeeping per record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sortedcontainers import SortedDict

from mesh.apis.answers import Ticket
from mesh.pool.common.history import UNSENT, History
from mesh.pool.state.slots import Slot
from mesh.records.batch import Batch, CorruptBatch, first_record, last_record
from mesh.records.runs import from_offset, split
from mesh.records.sorted_spans import around, before
from mesh.records.spans import Span


@dataclass(slots=True, eq=False)
class Available:
    """A batch that waits for a member.

    history: of its span, before this delivery.
    avoid: the slot of the member it was taken from, if that one lives on: others get it first.
    """

    batch: Batch
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
    """Some offsets of a single batch that wait for a member, while others of it are held, or settled.

    Its bytes are those of the whole batch: a share member is told which offsets it has; for anybody else it is cut.
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


def available_of(batch: Batch, span: Span, history: History, avoid: Slot | None = None) -> Available:
    """What is available of a batch or run: all of it, or a part of a single batch (`mesh.records.runs.hold_spans`)."""
    if span.first == batch.first and span.last == batch.last:
        return Available(batch, history, avoid)
    return View(batch, history, avoid, part=span)


@dataclass(slots=True, eq=False)
class Delivery:
    """One run of upstream offsets [first, last] that a member holds; `virtual` is the virtual offset of `first`.

    batch: its bytes, None once they were given up to the replay budget; then it is read again if it is asked for.
    since: when it was sent, in seconds. records_end: the upstream offset behind its last record, once that was looked
    for; what lies between that and `last` was emptied by compaction, and clients commit no further than their records.
    """

    virtual: int
    first: int
    last: int
    batch: Batch | None
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
        """The upstream offset of its first record, as far as that can be told: in front of it there may be some that
        have none."""
        if self.batch is None:
            return self.first
        batch = from_offset(self.batch, self.first)
        try:
            return min(first_record(split(batch, 1)[0] if batch.marks else batch, self.first), self.last)
        except CorruptBatch:
            return self.first

    @property
    def has_records(self) -> bool:
        """Whether there is a record in what is left of it, as far as that can be told."""
        if self.records_end is None and self.batch is not None:
            batch = from_offset(self.batch, self.first)
            if batch.marks:
                return True
            self._look_for_end(batch)
        return self.records_end is None or self.first < self.records_end

    def strip(self) -> None:
        """Give up its bytes."""
        if self.batch is not None:
            self._look_for_end(from_offset(self.batch, self.last))
            self.batch = None

    def _look_for_end(self, last: Batch) -> None:
        try:
            self.records_end = min(last_record(last), self.last) + 1
        except CorruptBatch:
            self.records_end = self.last + 1

    def base_offset(self, batch: Batch) -> int:
        """The virtual offset of the record that has offset delta 0 in a batch of this delivery."""
        return self.virtual + batch.base - self.first


class Window:
    """One member's view of one partition.

    committed: below this everything is settled or was taken away; what OffsetFetch answers.
    end: the virtual offset after the last one sent.
    held: how many upstream offsets it holds.
    fetch: names the parked Fetch that is to be answered from here, the newest.
    acknowledged: the highest upstream offset that it has ever settled, and the version of the ledger when it last did.
    is_fenced: the partition went elsewhere with what was held or not stored, and the member has not begun anew:
    it may still process what it was sent, and must not take it for acknowledged.
    """

    __slots__ = ("_deliveries", "acknowledged", "committed", "end", "fetch", "held", "is_fenced")

    def __init__(self, start: int) -> None:
        self.committed = start
        self.end = start
        self.held = 0
        self.fetch: Ticket | None = None
        self.acknowledged: tuple[int, int] | None = None
        self.is_fenced = False
        self._deliveries: SortedDict[int, Delivery] = SortedDict()

    def __contains__(self, offset: int) -> bool:
        return self.committed <= offset <= self.end

    def __len__(self) -> int:
        return len(self._deliveries)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries.values())

    def append(self, available: Available, now: float = 0.0) -> Delivery:
        """The member is being sent this: give it the next virtual offsets."""
        batch = available.batch
        delivery = Delivery(self.end, batch.first, batch.last, batch, available.history, since=now)
        self._deliveries[delivery.virtual] = delivery
        self.end = delivery.end
        self.held += len(delivery)
        return delivery

    def first(self) -> Delivery | None:
        """The oldest that it holds."""
        return self._deliveries.peekitem(0)[1] if self._deliveries else None

    def holds_beyond(self, offset: int) -> bool:
        """Whether it holds anything that lies at or above `offset`."""
        return self.held > 0 and bool(self._deliveries.peekitem(-1)[1].end > offset)

    def sent_from(self, offset: int) -> Iterator[Delivery]:
        """The deliveries that hold `offset` or come after it, in order."""
        for virtual in around(self._deliveries, offset):
            delivery = self._deliveries[virtual]
            if delivery.end > offset:
                yield delivery

    def settle(self, offset: int) -> list[Span]:
        """The member committed `offset` (committed <= offset <= end): give up what lies below; returns its spans."""
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
        """The member has committed all records of its oldest delivery: what of that is left holds none."""
        oldest = self.first()
        return self.settle(oldest.end) if oldest is not None and not oldest.has_records else []

    def release(self) -> list[Delivery]:
        """Take everything away; the member goes on after what it was sent."""
        released = list(self._deliveries.values())
        for delivery in released:
            delivery.held = False
        self._deliveries.clear()
        self.held = 0
        self.committed = self.end
        return released

    def truncate(self, offset: int) -> int:
        """Upstream there are other records from this offset on; returns how many offsets that takes away. What is left
        of a delivery that reaches beyond it has to be read again."""
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

    def fence(self) -> None:
        """What it was sent, or has settled, is lost; until its member begins anew, its commits are about that."""
        self.is_fenced = True
        self.acknowledged = None

    def move(self, start: int) -> None:
        """Go on at a new slot's start; only for a window that holds nothing."""
        if self.held:
            raise ValueError("a window that holds spans cannot move")
        self.committed = self.end = start

    def jump(self, start: int) -> None:
        """The next records are given offsets of a new slot; what was sent keeps its own."""
        if start < self.end:
            raise ValueError(f"a window cannot jump back from {self.end} to {start}")
        self.end = start
        if not self.held:
            self.committed = start

    def strip(self, delivery: Delivery) -> None:
        """Give up the bytes of a delivery; what is then one run without bytes becomes one delivery."""
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
        """A delivery's bytes were read again, in other batches; what is in none of them is gone upstream.

        Returns how many offsets that leaves out.
        """
        if self._deliveries.pop(delivery.virtual, None) is not delivery:
            raise ValueError(f"no such delivery at {delivery.virtual}")
        delivery.held = False
        for part in parts:
            self._deliveries[part.virtual] = part
        lost = len(delivery) - sum(len(part) for part in parts)
        self.held -= lost
        return lost
