"""Batches as producers send them."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatchBuilder

MAGIC = 2
TIMESTAMP = 1_700_000_000_000


def batch(
    *values: bytes,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    codec: int = 0,
) -> bytes:
    """One batch with a record of each value; codec: Kafka's number for it."""
    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=codec,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for number, value in enumerate(values):
        builder.append(number, TIMESTAMP + number, b"key-%d" % number, value, [("header", b"1")])
    return bytes(builder.build())


def corrupt(whole: bytes) -> bytes:
    """The same batch with another checksum."""
    at = 17
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
