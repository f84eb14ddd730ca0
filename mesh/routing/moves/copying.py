"""Copies one partition: decides on the next batch to write at the target, so that each record keeps its offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from crc32c import crc32c

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, LOG_APPEND_TIME, MAGIC
from mesh.records.compression import compress
from mesh.records.producer_batches import with_producer_ids
from mesh.records.varints import encode_varint

MOST_FILLED: Final = 100_000
"""The most empty records in a batch that fills offsets."""
_HEAD: Final = Struct(">qiibIhi")
"""Base offset, length, partition leader epoch, magic, CRC, attributes, last offset delta."""
_BASE: Final = Struct(">q")
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_TIMESTAMPS: Final = Struct(">qq")
_TIMESTAMPS_AT: Final = 27
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_GZIP: Final = 1
_AFTER_HEAD: Final = Struct(">qqqhii")
"""Timestamps, producer id, producer epoch, base sequence, number of records."""


class NotCopied(Exception):
    """Raised for a record that cannot keep its offset or timestamp at the target. kind: a name of the reason, for
    operators."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Put:
    """Write a batch to the target. base: its first offset. next: the offset after it."""

    batch: bytes
    base: int
    next: int

    @property
    def without_producer(self) -> Put:
        """The same batch without its producer, for a target that does not accept the producer."""
        batch = bytearray(self.batch)
        _PRODUCER.pack_into(batch, _PRODUCER_AT, -1, -1, -1)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
        return Put(bytes(batch), self.base, self.next)


@dataclass(frozen=True, slots=True)
class Fill:
    """Write empty records, because the source has no records at these offsets any more. They are deleted before clients
    are sent to the target."""

    count: int
    timestamp: int


Step: TypeAlias = Put | Fill


def steps(records: memoryview, position: int, log_start: int, producers: Callable[[int], int]) -> Iterator[Step]:
    """Yields the writes for a Fetch answer of the source. position: the end of the target's log. log_start: the start
    of the source's log. Raises NotCopied."""
    at = 0
    while at + HEADER_SIZE <= len(records):
        base, length, _, magic, _, attributes, delta = _HEAD.unpack_from(records, at)
        end = at + LENGTH_OVERHEAD + length
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise NotCopied("message_format", f"offset {base} is in a message format before v2")
        if end > len(records):
            return
        last = base + delta
        _check(base, attributes)
        if base > position:
            if not base <= log_start <= last:
                raise NotCopied("gap", f"offsets {position} to {base - 1} have no records")
            yield from fills(base - position, _TIMESTAMPS.unpack_from(records, at + _TIMESTAMPS_AT)[0])
            position = base
        if base < position:
            raise NotCopied("misaligned", f"the target ends at {position}, within a batch that begins at {base}")
        batch = bytearray(records[at:end])
        _BASE.pack_into(batch, 0, 0)  # as producers set it: brokers refuse other values
        with_producer_ids(batch, producers)
        yield Put(bytes(batch), base, last + 1)
        position, at = last + 1, end


def fills(count: int, timestamp: int) -> Iterator[Fill]:
    while count > 0:
        yield Fill(min(count, MOST_FILLED), timestamp)
        count -= MOST_FILLED


def filling(step: Fill) -> bytes:
    """Returns a batch of records without key, value and headers."""
    body = _empty_records(step.count)
    head = _AFTER_HEAD.pack(step.timestamp, step.timestamp, -1, -1, -1, step.count)
    size = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
    batch = bytearray(_HEAD.pack(0, size, -1, MAGIC, 0, _GZIP, step.count - 1) + head + body)
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return bytes(batch)


def is_same(source: memoryview, target: memoryview) -> bool:
    """Returns True if two Fetch answers begin with the same batch: the same offset and the same records, from any
    producer."""
    if min(len(source), len(target)) < HEADER_SIZE:
        return False
    ours, theirs = _HEAD.unpack_from(source), _HEAD.unpack_from(target)
    end = LENGTH_OVERHEAD + ours[1]
    if (ours[0], ours[1], ours[6]) != (theirs[0], theirs[1], theirs[6]):
        return False
    return bool(source[HEADER_SIZE:end] == target[HEADER_SIZE:end])


def _check(base: int, attributes: int) -> None:
    if attributes & (_TRANSACTIONAL | _CONTROL):
        raise NotCopied("transactions", f"offset {base} is of a transaction, whose markers cannot be copied")
    if attributes & LOG_APPEND_TIME:
        raise NotCopied("log_append_time", f"offset {base} has a timestamp of its broker, which cannot be copied")


@lru_cache(2)
def _empty_records(count: int) -> bytes:
    """Returns compressed records. Each has attributes, no timestamp delta, its offset delta, and no key, value or
    headers."""
    records = bytearray()
    for number in range(count):
        record = b"\0\0" + encode_varint(number) + b"\x01\x01\0"
        records += encode_varint(len(record)) + record
    return compress(_GZIP, bytes(records))
