"""Record batches of format version 2, the unit that the mesh moves (KIP-98; layout in Kafka's DefaultRecordBatch).

Several batches that follow each other are moved as one, a run: `mesh.records.runs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from crc32c import crc32c

from mesh.records.compression import CorruptBody, decompress
from mesh.records.varints import read_varint

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
"""The bytes that the length field does not count: the base offset and the length itself."""
MAGIC: Final = 2
COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
"""The attribute bit of a batch whose records all have the broker's timestamp. It is in the field of the highest
timestamp."""

_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_ATTRIBUTES_AT: Final = 21
LAST_DELTA_AT: Final = 23
_TIMESTAMPS_AT: Final = 27
_COUNT_AT: Final = 57

BATCH_START: Final = Struct(">qii")
"""Base offset, length, partition leader epoch."""
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")
_TIMESTAMPS: Final = Struct(">qq")


class CorruptBatch(ValueError):
    """Raised for bytes that are not a valid record batch."""


Mark: TypeAlias = tuple[int, int, int, int]
"""The place of a batch in a run: the position of its first byte, its base offset, the length in its header, and its
number of records. Positions are relative to the position in the run's first mark."""


@dataclass(slots=True, eq=False)
class RecordBatch:
    """One record batch of format 2, or a run of them, with the upstream offsets of it that count. Each has exactly one
    owner at a time.

    * data: whole batches, header and body, and nothing else.
    * base: the upstream offset of a record with offset delta 0 in the first batch.
    * first, last: the upstream offsets that count. first > base if the front is cut off, or is settled by the member
      that holds it. first < base if offsets in front of it have no record and count with it. In a run, first is in the
      first batch and last is in the last one.
    * record_count: the number of records in the batches, including those in front of `first`.
    * marks: the places of the batches of a run; empty for a single batch. Offsets without a record between two batches
      count with the second one.
    """

    data: bytearray | memoryview
    base: int
    first: int
    last: int
    record_count: int
    marks: Sequence[Mark] = ()


def is_intact(batch: RecordBatch) -> bool:
    """Returns whether the checksum of a batch, which its producer made, matches its bytes."""
    (stored,) = _UINT32.unpack_from(batch.data, _CRC_AT)
    return bool(stored == crc32c(memoryview(batch.data)[_CRC_FROM:]))


def seal(data: bytearray) -> None:
    """Writes the CRC of a batch that is otherwise complete."""
    _UINT32.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_CRC_FROM:]))


def attributes_of(batch: RecordBatch) -> int:
    (attributes,) = _INT16.unpack_from(batch.data, _ATTRIBUTES_AT)
    return int(attributes)


def timestamps_of(batch: RecordBatch) -> tuple[int, int]:
    """Returns the timestamp to which those of the records are relative, and the highest timestamp, in milliseconds."""
    first, highest = _TIMESTAMPS.unpack_from(batch.data, _TIMESTAMPS_AT)
    return int(first), int(highest)


def is_compressed(batch: RecordBatch) -> bool:
    return bool(attributes_of(batch) & COMPRESSION_MASK)


def body_of(batch: RecordBatch) -> bytes:
    """Returns the records of a batch one after the other, uncompressed. Raises CorruptBatch."""
    try:
        return decompress(attributes_of(batch) & COMPRESSION_MASK, bytes(memoryview(batch.data)[HEADER_SIZE:]))
    except CorruptBody as problem:
        raise CorruptBatch(str(problem)) from problem


def unpack_batch(batch: RecordBatch) -> RecordBatch:
    """Returns an uncompressed copy of a batch. Raises CorruptBatch."""
    data = bytearray(batch.data[:HEADER_SIZE]) + body_of(batch)
    _INT16.pack_into(data, _ATTRIBUTES_AT, attributes_of(batch) & ~COMPRESSION_MASK)
    _INT32.pack_into(data, _LENGTH_AT, len(data) - LENGTH_OVERHEAD)
    seal(data)
    return RecordBatch(data, batch.base, batch.first, batch.last, batch.record_count)


def cut_batch(batch: RecordBatch, bounds: Iterable[tuple[int, int]]) -> Iterator[RecordBatch]:
    """Returns a batch for each of these spans [first, last] (ascending, none overlapping), with its records that count.
    A span without records gives no batch. Each batch ends with its last record, since clients commit no further.

    Records keep their bytes and offset deltas, and batches their base, so offsets stay. The highest timestamp in the
    header may be that of a record that is left out. Raises ValueError for a compressed batch. Raises CorruptBatch.
    """
    if is_compressed(batch):
        raise ValueError("a compressed batch cannot be cut without reading its records")
    records = _records(batch)
    record = next(records, None)
    end = HEADER_SIZE
    for first, last in bounds:
        first, last = max(first, batch.first), min(last, batch.last)
        begin, count, highest = 0, 0, first
        while record is not None and record[0] <= last:
            offset, position, end = record
            if offset >= first:
                begin, highest = begin or position, offset
                count += 1
            record = next(records, None)
        if end > len(batch.data):
            raise CorruptBatch("the last record ends beyond its batch")
        if count:
            yield _cut(batch, begin, end, first, highest, count)


def _cut(batch: RecordBatch, begin: int, end: int, first: int, last: int, count: int) -> RecordBatch:
    """Returns a batch with some of its records: those between two positions in its bytes, with these offsets."""
    cut = bytearray(batch.data[:HEADER_SIZE])
    cut += memoryview(batch.data)[begin:end]
    _INT32.pack_into(cut, _LENGTH_AT, len(cut) - LENGTH_OVERHEAD)
    _INT32.pack_into(cut, LAST_DELTA_AT, last - batch.base)
    _INT32.pack_into(cut, _COUNT_AT, count)
    seal(cut)
    return RecordBatch(cut, batch.base, first, last, count)


def last_record(batch: RecordBatch) -> int:
    """Returns the upstream offset of the last record of a single batch; one below its base if it has none. Compaction
    may have removed the records behind it. Raises CorruptBatch."""
    if batch.record_count == batch.last - batch.base + 1:
        return batch.last
    readable = unpack_batch(batch) if is_compressed(batch) else batch
    last = batch.base - 1
    for offset, _, end in _records(readable):
        if offset > batch.last:
            break
        if end > len(readable.data):
            raise CorruptBatch("the last record ends beyond its batch")
        last = offset
    return last


def first_record(batch: RecordBatch, offset: int) -> int:
    """Returns the upstream offset of the first record of a single batch at or above `offset`; `offset` if there is
    none. Raises CorruptBatch."""
    if offset >= batch.base and batch.record_count == batch.last - batch.base + 1:
        return offset
    readable = unpack_batch(batch) if is_compressed(batch) else batch
    return next((found for found, _, _ in _records(readable) if found >= offset), offset)


def _records(batch: RecordBatch) -> Iterator[tuple[int, int, int]]:
    """Yields the upstream offset of each record of an uncompressed batch, and where its bytes begin and end. Raises
    CorruptBatch."""
    data, position = batch.data, HEADER_SIZE
    try:
        for _ in range(batch.record_count):
            length, body = read_varint(data, position)
            if length < 0:
                raise CorruptBatch(f"a record of {length} bytes")
            _, after_timestamp = read_varint(data, body + 1)
            delta, _ = read_varint(data, after_timestamp)
            yield batch.base + delta, position, body + length
            position = body + length
    except (IndexError, ValueError) as problem:
        raise CorruptBatch(str(problem)) from problem
