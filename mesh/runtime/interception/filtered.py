"""Partitions of a Produce request whose interceptors may drop records: the batch that is sent instead, with its
sequence numbers, and the response to the producer.

A batch is judged, then numbered, and sent at once. While it is judged, another connection may bring the same batch or
an earlier one. Then it is judged again, with the decisions that were made meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from mesh.interceptors.chain import ChainResult
from mesh.interceptors.sequences import (
    KnownBatch,
    NewBatch,
    Numbered,
    ProducerPartition,
    SequencedBatch,
    Sequences,
    Unsequenced,
)
from mesh.records.batch import CorruptBatch
from mesh.records.numbering import ProducerBatch, producer_batch, with_base_sequence
from mesh.records.rewrite import OldFormatRecords
from mesh.runtime.interception.interceptor_runner import NotIntercepted
from mesh.wire.errors import ErrorCode

MOST_ROUNDS: Final = 3
"""The most times that a batch is judged if other connections bring it meanwhile."""
NOT_STORED: Final[frozenset[int]] = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
    }
)
"""Errors that a broker sends before it appends. After other errors a batch may be stored: a leader that is replaced
while it waits for its followers answers NOT_LEADER_OR_FOLLOWER, and the next leader may have the batch."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The batch of a partition whose interceptors may drop records. sequenced: None for a producer that is not
    idempotent."""

    batch: ProducerBatch
    sequenced: SequencedBatch | None

    @classmethod
    def of(cls, records: bytes, topic: str, partition: int) -> Filtered | NotIntercepted:
        """Reads the batch of a partition, or returns the reason why it cannot be judged. topic: the producer's name of
        the topic."""
        try:
            batch = producer_batch(memoryview(records))
        except CorruptBatch:
            return NotIntercepted.CORRUPT
        except OldFormatRecords:
            return NotIntercepted.OLD_FORMAT
        if not batch.is_idempotent or batch.is_control:  # brokers accept no control batches from producers
            return cls(batch, None)
        of = ProducerPartition(batch.producer_id, topic, partition)
        return cls(batch, SequencedBatch(of, batch.epoch, batch.sequence, batch.records))

    def plan(self, sequences: Sequences) -> NewBatch | KnownBatch | Unsequenced:
        return NewBatch() if self.sequenced is None else sequences.plan(self.sequenced)

    def is_all(self, dropped: int) -> bool:
        """True if `dropped` has all records of the batch. dropped: a bit for each record, as in
        `ChainResult.dropped`."""
        return dropped.bit_count() == self.batch.records

    def numbered(self, records: bytes, judged: ChainResult, sequences: Sequences) -> Outcome:
        """Numbers the kept records of the batch. records: as the producer sent them. judged: an outcome without a
        failure or a rejected record."""
        kept = self.batch.records - judged.dropped.bit_count()
        if kept and judged.records is not None and _count(judged.records) != kept:
            # A bug in the worker: the records would not get the remembered sequence numbers.
            return NotIntercepted.CORRUPT
        if self.sequenced is None:
            data = judged.records if judged.records is not None else records
            return Replaced(data if kept else None)
        numbered = sequences.number(self.sequenced, judged.dropped)
        match numbered:
            case Numbered():
                return _replaced(self.batch, records, judged, numbered)
            case KnownBatch() | Unsequenced():
                return numbered
            case _:
                assert_never(numbered)


@dataclass(frozen=True, slots=True)
class Replaced:
    """The replacement of a batch. records: None if nothing is sent and the producer gets a success. numbered: None for
    a producer that is not idempotent."""

    records: bytes | None
    numbered: Numbered | None = None


Outcome: TypeAlias = Replaced | KnownBatch | Unsequenced | NotIntercepted


def _replaced(batch: ProducerBatch, records: bytes, judged: ChainResult, numbered: Numbered) -> Replaced:
    if numbered.sequence is None:
        return Replaced(None, numbered)
    data = judged.records if judged.records is not None else records
    if numbered.sequence != batch.sequence:
        data = with_base_sequence(data, numbered.sequence)
    return Replaced(data, numbered)


def _count(records: bytes) -> int | None:
    try:
        return producer_batch(memoryview(records)).records
    except (CorruptBatch, OldFormatRecords):
        return None
