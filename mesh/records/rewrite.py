"""Decodes a batch into records, and encodes changed records into a batch with the same header, for interceptors.

The records of the new batch keep their offset deltas, so a record that is left out leaves a gap, as compaction does.
Base offset, last offset delta, producer id, epoch and sequence stay, as do the codec and the other attributes. The
highest timestamp changes only if timestamps of records do.

aiokafka's reader and builder do it, in C. They read a record of 200 bytes, with key and value, in half a microsecond.
Walking over the varints in Python, without copying key and value, takes nearly six times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from mesh.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LAST_DELTA_AT,
    LENGTH_OVERHEAD,
    MAGIC,
    CorruptBatch,
    RecordBatch,
    is_intact,
    seal,
    unpack_batch,
)
from mesh.records.compression import compress
from mesh.records.encode import BatchBuilder, Headers

_HEAD: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, partition leader epoch, magic, CRC, attributes, last offset delta, first timestamp, highest
timestamp, producer id, producer epoch, base sequence, record count."""
_START: Final = Struct(">qi4xb")
"""Base offset, length, magic."""
_SHORTEST: Final = 14
"""The shortest length of a record in any format (`LegacyRecord.RECORD_OVERHEAD_V0`)."""
_LENGTH: Final = Struct(">qi")
_ATTRIBUTES: Final = Struct(">h")
_ATTRIBUTES_AT: Final = 21
_TIMES: Final = Struct(">qq")
_TIMES_AT: Final = 27
_IDENTITY: Final = slice(43, 57)
"""Producer id, epoch and base sequence."""
_EPOCH: Final = slice(12, 16)
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
"""The attribute bit with which the first timestamp is the time of deletion of tombstones. A rewritten batch does not
have it."""


class OldFormatRecords(ValueError):
    """Raised for records of the formats before Kafka 0.11, which are not supported here."""


class RecordFields(NamedTuple):
    """A record of a batch. delta: its offset delta. timestamp: milliseconds, -1 for none."""

    delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class BatchHead(NamedTuple):
    """The fields of a batch's header that are used here."""

    base: int
    attributes: int
    last_delta: int
    producer_id: int
    records: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def codec(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def last(self) -> int:
        """The highest offset of the batch."""
        return self.base + self.last_delta


def head_of(batch: memoryview) -> BatchHead:
    """Reads the header of a whole batch. Raises CorruptBatch for impossible numbers."""
    base, _, _, _, _, attributes, delta, _, _, producer, _, _, count = _HEAD.unpack_from(batch)
    if base < 0 or delta < 0 or not 0 <= count <= delta + 1:
        raise CorruptBatch(f"base offset {base}, last offset delta {delta}, {count} records")
    return BatchHead(base, attributes, delta, producer, count)


def whole_batches(records: memoryview) -> Iterator[memoryview]:
    """Returns the batches in the records of a partition, one after the other, up to the first incomplete one, as a
    broker finds them (`ByteBufferLogInputStream`). Raises CorruptBatch, also for an incomplete one with an impossible
    length or magic. Raises OldFormatRecords for a batch of magic 0 or 1."""
    at, limit = 0, len(records)
    while (left := limit - at) >= LENGTH_OVERHEAD:
        _, length = _LENGTH.unpack_from(records, at)
        if length < _SHORTEST:
            raise CorruptBatch(f"a batch of {length} bytes")
        if left < _START.size:
            return
        _, _, magic = _START.unpack_from(records, at)
        if not 0 <= magic <= MAGIC:
            raise CorruptBatch(f"record format {magic}")
        end = at + LENGTH_OVERHEAD + length
        if end > limit:
            return
        if magic < MAGIC:
            raise OldFormatRecords(f"record format {magic}")
        if length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise CorruptBatch(f"a batch of {length} bytes")
        yield records[at:end]
        at = end


def records_of(batch: memoryview) -> list[RecordFields]:
    """Returns the records of one whole batch. Raises CorruptBatch, also for a wrong checksum, since a rewritten batch
    would get a correct one."""
    head = head_of(batch)
    whole = RecordBatch(batch, head.base, head.base, head.last, head.records)
    if not is_intact(whole):
        raise CorruptBatch("the checksum of a batch is wrong")
    readable = unpack_batch(whole).data if head.codec else batch
    try:
        reader = DefaultRecordBatch(bytes(readable))
        found = [
            RecordFields(each.offset - head.base, each.timestamp, each.key, each.value, each.headers) for each in reader
        ]
    except (CorruptRecordException, ValueError, OverflowError) as problem:
        raise CorruptBatch(str(problem)) from problem
    if any(not 0 <= each.delta <= head.last_delta for each in found):
        raise CorruptBatch(f"a record beyond the last offset delta {head.last_delta}")
    return found


def rewritten(batch: memoryview, records: Sequence[RecordFields], *, has_new_times: bool = False) -> bytes:
    """Returns the batch with these records (at least one, in the order of their deltas) in place of its own.

    has_new_times: whether a timestamp has changed. Raises ValueError if there are no records, or a record is too large.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    head = head_of(batch)
    builder = BatchBuilder(head.base)
    for delta, timestamp, key, value, headers in records:
        builder.append(delta, timestamp, key, value, headers)
    built = builder.batch(head.base + records[-1].delta).data
    new = bytearray(built[:HEADER_SIZE]) + compress(head.codec, bytes(built[HEADER_SIZE:]))
    first, highest = _TIMES.unpack_from(built, _TIMES_AT)
    if not has_new_times:
        _, highest = _TIMES.unpack_from(batch, _TIMES_AT)
    _LENGTH.pack_into(new, 0, head.base, len(new) - LENGTH_OVERHEAD)
    new[_EPOCH] = batch[_EPOCH]
    new[_IDENTITY] = batch[_IDENTITY]
    _ATTRIBUTES.pack_into(new, _ATTRIBUTES_AT, head.attributes & ~_DELETE_HORIZON)
    new[LAST_DELTA_AT : LAST_DELTA_AT + 4] = batch[LAST_DELTA_AT : LAST_DELTA_AT + 4]
    _TIMES.pack_into(new, _TIMES_AT, first, highest)
    seal(new)
    return bytes(new)
