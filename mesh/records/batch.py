"""Record batches of format version 2, the unit the mesh moves (KIP-98; layout in Kafka's DefaultRecordBatch).

Several that follow each other are moved as one, a run: `mesh.records.runs`.
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
"""What the length field does not count: the base offset and itself."""
MAGIC: Final = 2
COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
"""The attribute bit that says that the batch has one timestamp, the broker's, in the field of the highest one."""

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
    """These bytes are no record batch."""


Mark: TypeAlias = tuple[int, int, int, int]
"""A batch of a run: where it begins (the first one's says where the run does), its base offset, the length that stands
in its header, how many records it holds."""


@dataclass(slots=True, eq=False)
class Batch:
    """One v2 record batch, or a run of them, and the upstream offsets that count. Owned by exactly one place at a time.

    data: whole batches, header and body, nothing else.
    base: the upstream offset that a record of offset delta 0 of the first batch has (or would have).
    first, last: the upstream offsets that count; first > base when the front is cut off, or settled by the member that
        holds it, and first < base when offsets in front of it have no record, and count with it. In a run they reach
        into the first batch and into the last one.
    record_count: how many records the batches hold, also those in front of `first`.
    marks: of the batches of a run; none of a single batch. Offsets without a record between two of them count with the
        one behind.
    """

    data: bytearray | memoryview
    base: int
    first: int
    last: int
    record_count: int
    marks: Sequence[Mark] = ()


def is_intact(batch: Batch) -> bool:
    """Whether its checksum, which its producer made, is that of its bytes."""
    (stored,) = _UINT32.unpack_from(batch.data, _CRC_AT)
    return bool(stored == crc32c(memoryview(batch.data)[_CRC_FROM:]))


def seal(data: bytearray) -> None:
    """Write the CRC of a batch that is otherwise complete."""
    _UINT32.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_CRC_FROM:]))


def attributes_of(batch: Batch) -> int:
    (attributes,) = _INT16.unpack_from(batch.data, _ATTRIBUTES_AT)
    return int(attributes)


def timestamps_of(batch: Batch) -> tuple[int, int]:
    """The timestamp that the records' are relative to, and the highest; milliseconds."""
    first, highest = _TIMESTAMPS.unpack_from(batch.data, _TIMESTAMPS_AT)
    return int(first), int(highest)


def is_compressed(batch: Batch) -> bool:
    return bool(attributes_of(batch) & COMPRESSION_MASK)


def body_of(batch: Batch) -> bytes:
    """Its records one after the other, uncompressed. Raises CorruptBatch."""
    try:
        return decompress(attributes_of(batch) & COMPRESSION_MASK, bytes(memoryview(batch.data)[HEADER_SIZE:]))
    except CorruptBody as problem:
        raise CorruptBatch(str(problem)) from problem


def unpack_batch(batch: Batch) -> Batch:
    """The same batch without compression, in bytes of its own. Raises CorruptBatch."""
    data = bytearray(batch.data[:HEADER_SIZE]) + body_of(batch)
    _INT16.pack_into(data, _ATTRIBUTES_AT, attributes_of(batch) & ~COMPRESSION_MASK)
    _INT32.pack_into(data, _LENGTH_AT, len(data) - LENGTH_OVERHEAD)
    seal(data)
    return Batch(data, batch.base, batch.first, batch.last, batch.record_count)


def slice_batches(batch: Batch, bounds: Iterable[tuple[int, int]]) -> Iterator[Batch]:
    """For each of these [first, last], ascending and apart, a batch of the records that count and whose upstream
    offsets lie in it; none where there are none. It ends with its last record: where compaction left nothing behind
    that, clients commit no further.

    Records keep their bytes and offset deltas, and batches their base; so the offsets stay what they are. The highest
    timestamp in the header may be that of a record left out. Raises ValueError for a compressed batch; CorruptBatch.
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


def _cut(batch: Batch, begin: int, end: int, first: int, last: int, count: int) -> Batch:
    """A batch of so many of its records, which stand between two places in its bytes and have these offsets."""
    cut = bytearray(batch.data[:HEADER_SIZE])
    cut += memoryview(batch.data)[begin:end]
    _INT32.pack_into(cut, _LENGTH_AT, len(cut) - LENGTH_OVERHEAD)
    _INT32.pack_into(cut, LAST_DELTA_AT, last - batch.base)
    _INT32.pack_into(cut, _COUNT_AT, count)
    seal(cut)
    return Batch(cut, batch.base, first, last, count)


def last_record(batch: Batch) -> int:
    """The upstream offset of the last record of a single batch, one below its base if it has none; behind that there
    may be offsets that compaction emptied. Raises CorruptBatch."""
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


def first_record(batch: Batch, offset: int) -> int:
    """The lowest upstream offset of a record of a single batch that does not lie below `offset`; `offset` if there is
    none. Raises CorruptBatch."""
    if offset >= batch.base and batch.record_count == batch.last - batch.base + 1:
        return offset
    readable = unpack_batch(batch) if is_compressed(batch) else batch
    return next((found for found, _, _ in _records(readable) if found >= offset), offset)


def _records(batch: Batch) -> Iterator[tuple[int, int, int]]:
    """The upstream offset of each record of a batch that is not compressed, and where it begins and ends. Raises
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
