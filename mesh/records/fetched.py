"""The record bytes of a Fetch answer to batches: what a consumer is to see of them, in place.

Passed over are control batches, empty ones (all that compaction may leave of a batch), and, under read_committed, the
batches of aborted transactions; those are of one producer each, so a batch is aborted whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, Batch, CorruptBatch

_HEADER: Final = Struct(">qiibIhiqqqhii")
_START: Final = Struct(">qiib")
_EPOCH: Final = Struct(">i")
_EPOCH_AT: Final = 12
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """batches: parts of the bytes that were given, no copies.

    position: the next offset to fetch; everything below it is in the batches or is not for consumers.
    is_old_format: a batch of magic 0 or 1 stands at `position`, which is not read here.
    epoch: the partition leader's, of the last whole batch; -1 if there is none.
    """

    batches: tuple[Batch, ...]
    position: int
    is_old_format: bool = False
    epoch: int = -1


def cut_batches(
    records: memoryview, position: int, aborted: Iterable[tuple[int, int]] = (), *, copied: bool = False
) -> FetchedBatches:
    """The batches of one partition from the offset `position` on; one that is not whole ends them.

    aborted: producer id and first offset of aborted transactions, as the answer lists them; none under
        read_uncommitted. copied: give each batch bytes of its own. Raises CorruptBatch.
    """
    batches: list[Batch] = []
    transactions = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    at, limit, last_at = 0, len(records), -1
    while limit - at > _START.size:
        base, length, _, magic = _START.unpack_from(records, at)
        if magic != MAGIC:
            if not 0 <= magic < MAGIC:
                raise CorruptBatch(f"record format {magic}")
            return FetchedBatches(tuple(batches), position, True, _epoch(records, last_at))
        end = at + LENGTH_OVERHEAD + length
        if length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise CorruptBatch(f"a batch of {length} bytes is shorter than its header")
        if end > limit:
            break
        *_, attributes, delta, _, _, producer, _, _, count = _HEADER.unpack_from(records, at)
        last = base + delta
        if base < 0 or delta < 0 or not 0 <= count <= delta + 1:
            raise CorruptBatch(f"base offset {base}, last offset delta {delta}, {count} records")
        while transactions and transactions[-1][1] <= last:
            aborting.add(transactions.pop()[0])
        if attributes & _CONTROL:
            # The marker that ends the transaction; a producer has one at a time.
            aborting.discard(producer)
        elif count and last >= position and not (attributes & _TRANSACTIONAL and producer in aborting):
            data = bytearray(records[at:end]) if copied else records[at:end]
            batches.append(Batch(data, base, max(base, position), last, count))
        position = max(position, last + 1)
        last_at, at = at, end
    return FetchedBatches(tuple(batches), position, epoch=_epoch(records, last_at))


def _epoch(records: memoryview, at: int) -> int:
    return int(_EPOCH.unpack_from(records, at + _EPOCH_AT)[0]) if at >= 0 else -1
