"""Finds the end of the whole batches in a Fetch answer. Brokers may cut off the last batch anywhere."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC

_HEADER: Final = Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta."""


class End(NamedTuple):
    """The end of the whole batches. size: their bytes. next: the offset behind them."""

    size: int
    next: int


def end_of_whole_batches(records: bytes | memoryview) -> End | None:
    """Returns the end of the whole batches in these records. Returns None if no batch is whole, if there are no
    records, or if a batch has a format before v2."""
    at, limit, next_offset = 0, len(records), -1
    while limit - at >= HEADER_SIZE:
        base, length, magic, delta = _HEADER.unpack_from(records, at)
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_OVERHEAD or delta < 0 or base < next_offset:
            return None
        if at + LENGTH_OVERHEAD + length > limit:
            break
        at, next_offset = at + LENGTH_OVERHEAD + length, base + delta + 1
    return End(at, next_offset) if at else None
