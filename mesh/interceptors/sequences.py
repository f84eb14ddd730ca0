"""The sequences of idempotent producers whose records interceptors drop. No IO, no clock.

A broker takes a batch of a producer id, epoch and partition only if its sequences follow those before, and recognises
the last five batches (ProducerStateManager). So the mesh sends the producer's sequence, less the number of records
dropped before it. It remembers which records of the last five batches were dropped. A batch that is sent again has the
same numbers, also a part of one, which a producer has divided because it was too large.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

SEQUENCES: Final = 1 << 31
"""The number of sequence numbers: they go from 0 to 2^31 - 1, and then begin at 0 again."""
MOST_REMEMBERED: Final = 5
"""The number of batches of a producer and partition that a broker recognises, and that producers have in flight."""
_ENTRY_BYTES: Final = 600
_BATCH_BYTES: Final = 200
"""Approximate memory of one batch, without the mask of its dropped records."""


class ProducerPartition(NamedTuple):
    """A producer id, and a partition to which it writes. topic: the name that clients use."""

    producer_id: int
    topic: str
    partition: int


class SequencedBatch(NamedTuple):
    """A producer's batch. first: the sequence of its first record. records: their number, at least 1."""

    of: ProducerPartition
    epoch: int
    first: int
    records: int


class Unsequenced(Enum):
    """The reason why a batch cannot be numbered. UNKNOWN: batches before it are not known here. OUT_OF_ORDER: a batch
    before it is missing, or it was sent long ago. OLD_EPOCH: its producer has begun a later epoch."""

    UNKNOWN = "unknown"
    OUT_OF_ORDER = "out of order"
    OLD_EPOCH = "old epoch"


class NewBatch(NamedTuple):
    """A new batch: the interceptors must decide which of its records are dropped."""


class KnownBatch(NamedTuple):
    """A known batch. dropped: a bit for each record, set if it was dropped; the first record has the lowest bit."""

    dropped: int


class _Remembered:
    """A batch that interceptors have judged. dropped: as in `KnownBatch`; -1 for all. upstream: the sequence of its
    first kept record. sent, refused: how often it was sent, and how often the broker answered that it did not store
    it."""

    __slots__ = ("dropped", "first", "records", "refused", "sent", "upstream")

    def __init__(self, first: int, records: int, dropped: int, upstream: int) -> None:
        self.first, self.records = first, records
        self.dropped = -1 if dropped.bit_count() == records else dropped
        self.upstream = upstream
        self.sent = self.refused = 0

    @property
    def kept(self) -> int:
        return self.kept_before(self.records)

    def dropped_of(self, start: int, records: int) -> int:
        """Returns the dropped ones of this many records, from the record at `start` on, as in `KnownBatch`."""
        return (self.dropped >> start) & _ones(records) if self.dropped else 0

    def kept_before(self, place: int) -> int:
        return place - self.dropped_of(0, place).bit_count()

    @property
    def size(self) -> int:
        return _BATCH_BYTES + (self.records // 8 if self.dropped > 0 else 0)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A batch to be sent now, with its sequence upstream. sequence: None if all of it is dropped."""

    of: ProducerPartition
    sequence: int | None
    remembered: _Remembered


Plan: TypeAlias = NewBatch | KnownBatch | Unsequenced


@dataclass(slots=True, eq=False)
class _Producer:
    """The sequences of one producer in one partition. next: the sequence of its next batch. upstream: the sequence that
    this batch will have upstream. Both are None if batches of this epoch were missed: no later one can be numbered."""

    epoch: int
    next: int | None = 0
    upstream: int = 0
    batches: list[_Remembered] = field(default_factory=list)

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + sum(each.size for each in self.batches)

    def find(self, batch: SequencedBatch) -> tuple[_Remembered, int] | None:
        """Returns the remembered batch that this one equals or is a part of, and the index of the record at which it
        begins."""
        for each in self.batches:
            start = (batch.first - each.first) % SEQUENCES
            if start < each.records:
                return (each, start) if start + batch.records <= each.records else None
        return None


class Sequences:
    """The sequences of the producers of one virtual cluster. limit: the approximate number of bytes to keep. Producers
    that have been silent for the longest time are forgotten first, and their next batches are UNKNOWN."""

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.size = 0
        self.forgotten = 0
        """The number of forgotten pairs of producer and partition."""
        self._producers: Final[OrderedDict[ProducerPartition, _Producer]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def plan(self, batch: SequencedBatch) -> Plan:
        """Returns the plan for a batch, before interceptors judge it."""
        producer = self._producers.get(batch.of)
        if producer is not None and batch.epoch < producer.epoch:
            return Unsequenced.OLD_EPOCH
        if producer is None or batch.epoch > producer.epoch:
            return self._first(batch)
        if producer.next is None:
            return Unsequenced.UNKNOWN
        if batch.first == producer.next:
            return NewBatch()
        found = producer.find(batch)
        if found is None:
            return Unsequenced.OUT_OF_ORDER
        remembered, start = found
        return KnownBatch(remembered.dropped_of(start, batch.records))

    def number(self, batch: SequencedBatch, dropped: int) -> Numbered | KnownBatch | Unsequenced:
        """Numbers a judged batch that is sent now, unless all of it is dropped. dropped: as in `KnownBatch`.

        If it returns KnownBatch or Unsequenced, the plan is void, because this batch or another one came over another
        connection meanwhile; then nothing may be sent.
        """
        plan = self.plan(batch)
        match plan:
            case NewBatch():
                producer = self._producers[batch.of]
                remembered = _Remembered(batch.first, batch.records, dropped, producer.upstream)
                self._append(producer, remembered)
                start = 0
            case KnownBatch():
                if plan.dropped != dropped:
                    return plan
                found = self._producers[batch.of].find(batch)
                assert found is not None, "it is decided"
                remembered, start = found
            case Unsequenced():
                return plan
            case _:
                assert_never(plan)
        self._producers.move_to_end(batch.of)
        self._forget()
        if dropped.bit_count() == batch.records:
            return Numbered(batch.of, None, remembered)
        remembered.sent += 1
        return Numbered(batch.of, (remembered.upstream + remembered.kept_before(start)) % SEQUENCES, remembered)

    def refused(self, numbered: Numbered) -> None:
        """Notes that the broker did not store the batch. A batch with these sequences is judged again, unless an
        earlier copy may be stored. The broker refuses later batches as well, so they are forgotten here."""
        remembered = numbered.remembered
        remembered.refused += 1
        producer = self._producers.get(numbered.of)
        if producer is None or remembered not in producer.batches or remembered.refused < remembered.sent:
            return
        self.size -= producer.size
        del producer.batches[producer.batches.index(remembered) :]
        producer.next, producer.upstream = remembered.first, remembered.upstream
        self.size += producer.size

    # Internals

    def _first(self, batch: SequencedBatch) -> Plan:
        """Returns the plan for the first batch of an epoch. If it does not begin at 0, earlier batches may have lost
        records. Then nothing of that epoch can be numbered, even if the producer begins at 0 again. If it begins at 0,
        it is remembered at once, so that batches behind a lost one are out of order, not unknown."""
        producer = _Producer(batch.epoch, 0 if batch.first == 0 else None)
        before = self._producers.pop(batch.of, None)
        if before is not None:
            self.size -= before.size
        self._producers[batch.of] = producer
        self.size += producer.size
        self._forget()
        return NewBatch() if batch.first == 0 else Unsequenced.UNKNOWN

    def _append(self, producer: _Producer, remembered: _Remembered) -> None:
        self.size -= producer.size
        producer.batches.append(remembered)
        del producer.batches[:-MOST_REMEMBERED]
        producer.next = (remembered.first + remembered.records) % SEQUENCES
        producer.upstream = (remembered.upstream + remembered.kept) % SEQUENCES
        self.size += producer.size

    def _forget(self) -> None:
        while self.size > self.limit and len(self._producers) > 1:
            _, producer = self._producers.popitem(last=False)
            self.size -= producer.size
            self.forgotten += 1


def _ones(count: int) -> int:
    return (1 << count) - 1
