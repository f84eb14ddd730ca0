"""Reads the records of one partition from a Fetch answer."""

from __future__ import annotations

from struct import unpack_from
from typing import Final

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, CorruptBatch, RecordBatch

_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_LAST_DELTA_AT: Final = 23
_COUNT_AT: Final = 57


def parse_batch(buffer: bytes | bytearray | memoryview, position: int, limit: int) -> RecordBatch | None:
    """The batch that begins at `position`; None if it ends beyond `limit` (brokers cut the last one of an answer).

    Its bytes are copied. Raises CorruptBatch.
    """
    if limit - position < LENGTH_OVERHEAD:
        return None
    (length,) = unpack_from(">i", buffer, position + _LENGTH_AT)
    end = position + LENGTH_OVERHEAD + length
    if length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise CorruptBatch(f"a batch of {length} bytes is shorter than its header")
    if end > limit:
        return None
    if buffer[position + _MAGIC_AT] != MAGIC:
        raise CorruptBatch(f"record format {buffer[position + _MAGIC_AT]}, not {MAGIC}")
    (base,) = unpack_from(">q", buffer, position)
    (delta,) = unpack_from(">i", buffer, position + _LAST_DELTA_AT)
    (count,) = unpack_from(">i", buffer, position + _COUNT_AT)
    if base < 0 or delta < 0 or not 0 <= count <= delta + 1:
        raise CorruptBatch(f"base offset {base}, last offset delta {delta}, {count} records")
    return RecordBatch(bytearray(buffer[position:end]), base, base, base + delta, count)


def split_batches(buffer: bytes | bytearray | memoryview) -> list[RecordBatch]:
    """The whole batches of a Fetch answer. Raises CorruptBatch."""
    batches: list[RecordBatch] = []
    position, limit = 0, len(buffer)
    while (batch := parse_batch(buffer, position, limit)) is not None:
        batches.append(batch)
        position += len(batch.data)
    return batches
