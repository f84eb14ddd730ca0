"""Messages of one consume() to batches: runs of one partition, small enough to be shared out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from mesh.records.batch import Batch
from mesh.records.encode import Headers, PlainRecord, encode_batch

LARGEST_RUN_BYTES = 16 << 10
LARGEST_RUN_RECORDS = 500


def offset_of(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise ValueError("a consumed message has an offset")
    return offset


def batches_of(messages: Iterable[Message]) -> list[Batch]:
    """The messages are of one partition, ascending, and carry no errors."""
    batches: list[Batch] = []
    run: list[PlainRecord] = []
    size = 0
    appended_at: int | None = None
    for message in messages:
        kind, timestamp = message.timestamp()
        # A batch whose timestamps are the broker's has one for all its records.
        stamp = timestamp if kind == TIMESTAMP_LOG_APPEND_TIME else None
        key, value = message.key(), message.value()
        length = len(key or b"") + len(value or b"")
        if run and (size + length > LARGEST_RUN_BYTES or len(run) >= LARGEST_RUN_RECORDS or stamp != appended_at):
            batches.append(encode_batch(run[0][0], run, appended_at is not None))
            run, size = [], 0
        appended_at = stamp
        # What comes from a broker is a list with bytes in it; the type says more, for what producers may give.
        headers = cast("Headers | None", message.headers())
        run.append((offset_of(message), timestamp, key, value, headers))
        size += length
    if run:
        batches.append(encode_batch(run[0][0], run, appended_at is not None))
    return batches
