"""Messages of one consume() to batches: runs of one partition, small enough to be shared out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from mesh.records.batch import Batch
from mesh.records.encode import Headers, PlainRecord, encode_batch

LARGEST_RUN_BYTES = 16 << 10
LARGEST_RUN_RECORDS = 500
NO_TIMESTAMP = -1


def offset_of(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise ValueError("a consumed message has an offset")
    return offset


def batches_of(messages: Iterable[Message]) -> list[Batch]:
    """The messages are of one partition, ascending, and carry no errors. A larger record is a batch by itself."""
    batches: list[Batch] = []
    run: list[PlainRecord] = []
    size = 0
    kind = stamp = NO_TIMESTAMP
    for message in messages:
        its_kind, timestamp = message.timestamp()
        key, value = message.key(), message.value()
        # What comes from a broker is a list with bytes in it; the type says more, for what producers may give.
        headers = cast("Headers | None", message.headers())
        length = (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            length += sum(len(name) + len(content or b"") for name, content in headers)
        if its_kind == TIMESTAMP_NOT_AVAILABLE:
            timestamp = NO_TIMESTAMP
        if run and (
            size + length > LARGEST_RUN_BYTES
            or len(run) == LARGEST_RUN_RECORDS
            or its_kind != kind
            # A batch has one log-append time for all its records.
            or (timestamp != stamp and kind == TIMESTAMP_LOG_APPEND_TIME)
        ):
            batches.append(encode_batch(run[0][0], run, kind == TIMESTAMP_LOG_APPEND_TIME))
            run, size = [], 0
        kind, stamp = its_kind, timestamp
        run.append((offset_of(message), timestamp, key, value, headers))
        size += length
    if run:
        batches.append(encode_batch(run[0][0], run, kind == TIMESTAMP_LOG_APPEND_TIME))
    return batches


def size_of(messages: Iterable[Message]) -> int:
    """Bytes of keys and values."""
    return sum(len(message) + len(message.key() or b"") for message in messages)
