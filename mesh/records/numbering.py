"""Renumbers the batch of a producer after records were left out of it.

A broker accepts a batch only if its offset deltas are 0, 1, 2 ... up to the last one, and its base sequence follows the
last batch (LogValidator.validateBatch, ProducerAppendInfo.checkSequence).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from mesh.records.batch import LAST_DELTA_AT, CorruptBatch, seal
from mesh.records.crc_shift import patched
from mesh.records.rewrite import RecordFields, head_of, rewritten, whole_batches

_INT32: Final = Struct(">i")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_PRODUCER: Final = Struct(">qhi")
"""Producer id, epoch, base sequence."""
_PRODUCER_AT: Final = 43
_SEQUENCE_AT: Final = 53
_SEQUENCE_ENDS: Final = _SEQUENCE_AT + _INT32.size


class ProducerBatch(NamedTuple):
    """The producer's fields in the header of a batch. producer_id: -1 if the producer is not idempotent. sequence: of
    the first record."""

    producer_id: int
    epoch: int
    sequence: int
    records: int
    is_control: bool

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0


def producer_batch(records: memoryview) -> ProducerBatch:
    """Reads the producer's fields of the one batch for a partition in a Produce request. Ignores the same bytes behind
    it as a broker. Raises OldFormat. Raises CorruptBatch, also for numbers that brokers refuse."""
    if sum(1 for _ in whole_batches(records)) != 1:
        raise CorruptBatch("not one batch in a partition of a Produce request")
    head = head_of(records)
    producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    if not head.records or head.records != head.last_delta + 1:
        raise CorruptBatch(f"{head.records} records, last offset delta {head.last_delta}")
    if producer_id >= 0 and (epoch < 0 or sequence < 0):
        raise CorruptBatch(f"producer {producer_id}, epoch {epoch}, sequence {sequence}")
    return ProducerBatch(producer_id, epoch, sequence, head.records, head.is_control)


def renumbered(batch: memoryview, records: Sequence[RecordFields]) -> bytes:
    """Returns the batch with these of its records (at least one), with offset deltas 0, 1, 2 .... Its highest timestamp
    is theirs. The other fields stay, including the sequence. Raises ValueError as `rewritten` does."""
    kept = [each._replace(delta=delta) for delta, each in enumerate(records)]
    new = bytearray(rewritten(batch, kept, has_new_times=True))
    _INT32.pack_into(new, LAST_DELTA_AT, len(kept) - 1)
    seal(new)
    return bytes(new)


def with_base_sequence(batch: bytes | memoryview, sequence: int) -> bytes:
    """Returns one whole batch with another base sequence. A wrong checksum stays wrong."""
    new = bytearray(batch)
    before = bytes(new[_SEQUENCE_AT:_SEQUENCE_ENDS])
    after = _INT32.pack(sequence)
    (crc,) = _CRC.unpack_from(new, _CRC_AT)
    new[_SEQUENCE_AT:_SEQUENCE_ENDS] = after
    _CRC.pack_into(new, _CRC_AT, patched(crc, before, after, len(new) - _SEQUENCE_ENDS))
    return bytes(new)
