"""Changes the producer ids in the batches of a Produce request, in place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from struct import Struct
from typing import Final

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from mesh.records.crc_shift import patched

_HEAD: Final = Struct(">qiibIh")
"""Base offset, length, partition leader epoch, magic, CRC, attributes."""
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_PRODUCER_ID: Final = Struct(">q")
_PRODUCER_ID_AT: Final = 43
_PRODUCER_ID_ENDS: Final = _PRODUCER_ID_AT + _PRODUCER_ID.size
_TRANSACTIONAL: Final = 0x10


def may_have_producer_ids(beginning: memoryview, size: int) -> bool:
    """Returns False if the records of a partition are a single batch without a producer id. beginning: their first
    bytes. size: the number of all bytes."""
    if len(beginning) < HEADER_SIZE:
        return True
    _, length, _, magic, _, _ = _HEAD.unpack_from(beginning)
    (producer_id,) = _PRODUCER_ID.unpack_from(beginning, _PRODUCER_ID_AT)
    return bool(magic != MAGIC or LENGTH_OVERHEAD + length != size or producer_id >= 0)


def with_producer_ids(
    records: bytearray | memoryview, change: Callable[[int], int | None], most_batches: int = sys.maxsize
) -> None:
    """Replaces each producer id in the records of a partition by `change(id)`; None keeps it. Corrects the CRC of the
    batch if it was correct before. most_batches: how many batches are changed; those behind them stay.

    Only batches of format 2 that have a producer id and are not transactional are changed. Transactional ones stay in
    their home cluster. From the first incomplete or invalid batch on, everything stays, and the broker refuses it.
    """
    at = 0
    while at + HEADER_SIZE <= len(records) and most_batches > 0:
        _, length, _, magic, crc, attributes = _HEAD.unpack_from(records, at)
        end = at + LENGTH_OVERHEAD + length
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_OVERHEAD or end > len(records):
            return
        (producer_id,) = _PRODUCER_ID.unpack_from(records, at + _PRODUCER_ID_AT)
        new = change(producer_id) if producer_id >= 0 and not attributes & _TRANSACTIONAL else None
        if new is not None:
            before, after = _PRODUCER_ID.pack(producer_id), _PRODUCER_ID.pack(new)
            _PRODUCER_ID.pack_into(records, at + _PRODUCER_ID_AT, new)
            _CRC.pack_into(records, at + _CRC_AT, patched(crc, before, after, end - at - _PRODUCER_ID_ENDS))
        at, most_batches = end, most_batches - 1
