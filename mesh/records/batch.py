"""Record batches of format version 2, the unit the mesh moves (KIP-98; layout in Kafka's DefaultRecordBatch)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Batch:
    """One v2 record batch and the upstream offsets of it that count. Owned by exactly one place at a time.

    data: the whole batch, header and body, nothing else.
    base: the upstream offset that a record of offset delta 0 has (or would have).
    first, last: the upstream offsets that count, base <= first <= last; first > base when the front is settled.
    record_count: how many records the batch holds, also those in front of `first`.
    """

    data: bytearray
    base: int
    first: int
    last: int
    record_count: int
