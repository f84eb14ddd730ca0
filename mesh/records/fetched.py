"""Cuts the records of a Fetch answer into runs of the batches that a consumer may see, without a copy where possible.

It skips control batches, empty batches (compaction may leave them) and, under read_committed, batches of aborted
transactions. A batch has records of one producer, so it is aborted as a whole. A skipped batch does not end a run.
Otherwise a topic of small transactions would have a run for each of them, and a run costs as much as a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, CorruptBatch, Mark, RecordBatch
from mesh.records.runs import MOST_EMPTY

_HEADER: Final = Struct(">qi4xb4xhi16xq6xi")
"""Base offset, length, magic, attributes, last offset delta, producer id, record count."""
_PLAIN: Final = Struct(">qi4xb4xhi30xi")
"""The same without the producer id."""
_START: Final = Struct(">qi4xb")
_EPOCH: Final = Struct(">i")
_EPOCH_AT: Final = 12
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """The batches of one partition in an upstream answer.

    * batches: parts of the given bytes, copied only for runs with other bytes between their batches.
    * position: the next offset to fetch. Every offset below it is in the batches, or is not for consumers.
    * is_old_format: whether a batch of magic 0 or 1 is at `position`. Such batches are not read here.
    * epoch: the partition leader epoch of the last whole batch; -1 if there is none.
    """

    batches: tuple[RecordBatch, ...]
    position: int
    is_old_format: bool = False
    epoch: int = -1


def split_into_runs(
    records: memoryview, position: int, aborted: Iterable[tuple[int, int]] = (), *, copied: bool = False
) -> FetchedBatches:
    """Returns the batches of one partition from the offset `position` on, in runs. It ends at the first incomplete
    batch.

    aborted: producer id and first offset of aborted transactions, as the answer lists them; none under
    read_uncommitted. copied: whether each run gets its own bytes. Raises CorruptBatch.
    """
    runs = _Runs(records, copied)
    transactions = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    at, limit, last_at, unpack = 0, len(records), -1, _HEADER.unpack_from
    while limit - at > _START.size:
        if limit - at < HEADER_SIZE or records[at + _MAGIC_AT] != MAGIC:
            if _is_old_format(records, at):
                return FetchedBatches(runs.end(), position, True, _epoch(records, last_at))
            break
        base, length, _, attributes, delta, producer, count = unpack(records, at)
        if length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise CorruptBatch(f"a batch of {length} bytes is shorter than its header")
        end = at + LENGTH_OVERHEAD + length
        if end > limit:
            break
        last = base + delta
        if base < 0 or delta < 0 or not 0 <= count <= delta + 1:
            raise CorruptBatch(f"base offset {base}, last offset delta {delta}, {count} records")
        while transactions and transactions[-1][1] <= last:
            aborting.add(transactions.pop()[0])
        if attributes & _CONTROL:
            # The marker ends the transaction; a producer has one at a time.
            aborting.discard(producer)
        elif count and last >= position and not (aborting and attributes & _TRANSACTIONAL and producer in aborting):
            runs.add(at, base, length, count, max(base, position), last)
            at, end, last = runs.follow(at, limit, _CONTROL | (_TRANSACTIONAL if transactions or aborting else 0))
        if last >= position:
            position = last + 1
        last_at, at = at, end
    return FetchedBatches(runs.end(), position, epoch=_epoch(records, last_at))


def _epoch(records: memoryview, at: int) -> int:
    return int(_EPOCH.unpack_from(records, at + _EPOCH_AT)[0]) if at >= 0 else -1


def _is_old_format(records: memoryview, at: int) -> bool:
    """Returns True for a batch of magic 0 or 1. Raises CorruptBatch for a format that is unknown, or a length below
    that of a header."""
    _, length, magic = _START.unpack_from(records, at)
    if not 0 <= magic <= MAGIC:
        raise CorruptBatch(f"record format {magic}")
    if magic == MAGIC and length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise CorruptBatch(f"a batch of {length} bytes is shorter than its header")
    return bool(magic < MAGIC)


class _Runs:
    """Joins batches that follow each other in the log, apart from offsets without records, into runs. The bytes of a
    run are not copied if nothing else lies between them."""

    def __init__(self, records: memoryview, copied: bool) -> None:
        self._records = records
        self._copied = copied
        self._found: list[RecordBatch] = []
        self._marks: list[Mark] = []
        self._first = self._count = self._size = 0
        self._last = -1
        self._stretches: list[memoryview] = []
        """The bytes of the run before those from `_begin` to `_end`."""
        self._begin = self._end = 0

    def add(self, at: int, base: int, length: int, count: int, first: int, last: int) -> None:
        if not self._marks or not 0 < base - self._last <= MOST_EMPTY + 1:
            self._close()
            self._marks, self._stretches = [], []
            self._first, self._count, self._size, self._begin = first, 0, 0, at
        elif at != self._end:
            self._stretches.append(self._records[self._begin : self._end])
            self._begin = at
        self._marks.append((self._size, base, length, count))
        self._size += LENGTH_OVERHEAD + length
        self._last, self._end = last, at + LENGTH_OVERHEAD + length
        self._count += count

    def follow(self, at: int, limit: int, special: int) -> tuple[int, int, int]:
        """Adds the batches behind the last added one, which is at `at`, up to the first special one. Nearly all batches
        are added here, so all is done in one loop. special: the attributes of special batches.

        Returns where the last batch begins and ends, and its last offset.
        """
        records, unpack, append = self._records, _PLAIN.unpack_from, self._marks.append
        end, last, size, records_in_all = self._end, self._last, self._size, self._count
        while end + HEADER_SIZE <= limit:
            base, length, magic, attributes, delta, count = unpack(records, end)
            beyond = end + LENGTH_OVERHEAD + length
            if magic != MAGIC or attributes & special or not 0 < count <= delta + 1 or beyond > limit:
                break
            if not last < base <= last + MOST_EMPTY + 1 or length < HEADER_SIZE - LENGTH_OVERHEAD:
                break
            append((size, base, length, count))
            size += LENGTH_OVERHEAD + length
            records_in_all += count
            at, end, last = end, beyond, base + delta
        self._end, self._last, self._size, self._count = end, last, size, records_in_all
        return at, end, last

    def end(self) -> tuple[RecordBatch, ...]:
        self._close()
        return tuple(self._found)

    def _close(self) -> None:
        if not self._marks:
            return
        data: bytearray | memoryview = self._records[self._begin : self._end]
        if self._stretches or self._copied:
            data = bytearray().join([*self._stretches, data])
        marks = self._marks if len(self._marks) > 1 else ()
        self._found.append(RecordBatch(data, self._marks[0][1], self._first, self._last, self._count, marks))
