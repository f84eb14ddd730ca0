"""Producer ids in the batches of a Produce request, changed in place."""

from __future__ import annotations

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


def with_producer_ids(records: bytearray | memoryview, change: Callable[[int], int | None]) -> None:
    """Put `change(id)` in place of each producer id in the records of a partition, and make the CRC of its batch right,
    if it was right before. None: the id stays.

    Only batches of format version 2 with a producer id; transactional ones stay, since they never leave their home.
    What does not look like whole batches stays as it is from there on: it is the broker's to refuse.
    """
    at = 0
    while at + HEADER_SIZE <= len(records):
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
        at = end
