"""Puts the messages of one consume() into batches of one partition, small enough to be shared out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from operator import lt
from typing import cast

import structlog
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from mesh.records.batch import RecordBatch
from mesh.records.encode import NO_HEADERS, BatchBuilder, Headers
from mesh.records.runs import join_runs

log = structlog.get_logger(__name__)

LARGEST_BATCH_BYTES = 16 << 10
LARGEST_BATCH_RECORDS = 500
"""A span of offsets, to be exact. Larger batches could not be shared out evenly."""
NO_TIMESTAMP = -1


def offset_of(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise ValueError("a consumed message has an offset")
    return offset


class OffsetsFellBack(ValueError):
    """Raised when offsets do not ascend: from the message at `index` on, they belong to another log."""

    def __init__(self, index: int) -> None:
        super().__init__(f"the offset of message {index} is not above the one before")
        self.index = index


def batches_of(messages: Sequence[Message]) -> list[RecordBatch]:
    """Returns batches; neighbouring batches without a gap are joined into runs. The messages are of one partition and
    carry no errors. A record larger than a batch is a batch by itself.

    Raises OffsetsFellBack, before it takes anything out of them.
    """
    if not messages:
        return []
    offsets = [message.offset() or 0 for message in messages]
    if not all(map(lt, offsets, islice(offsets, 1, None))):
        raise OffsetsFellBack(next(index for index, (one, two) in enumerate(pairwise(offsets), 1) if two <= one))
    batches: list[RecordBatch] = []
    builder: BatchBuilder | None = None
    base = last = -1
    appended: int | None = None
    """The time at which the broker appended the batch, for topics with LogAppendTime; None with CreateTime."""
    for offset, headers, message in zip(offsets, _headers(messages), messages, strict=True):
        kind, timestamp = message.timestamp()
        if kind == TIMESTAMP_NOT_AVAILABLE:
            timestamp = NO_TIMESTAMP
        its_appended = timestamp if kind == TIMESTAMP_LOG_APPEND_TIME else None
        record = (timestamp, message.key(), message.value(), headers or NO_HEADERS)
        if (
            builder is None
            or its_appended != appended
            or offset - base >= LARGEST_BATCH_RECORDS
            or builder.append(offset - base, *record) is None
        ):
            if builder is not None:
                batches.append(builder.batch(last, appended is not None))
            builder, base, appended = BatchBuilder(offset, LARGEST_BATCH_BYTES), offset, its_appended
            builder.append(0, *record)
        last = offset
    if builder is not None:
        batches.append(builder.batch(last, appended is not None))
    return join_runs(batches)


def _headers(messages: Sequence[Message]) -> list[Headers | None]:
    """Returns the headers of each message; call it once for a message. Producers may write header names that are not
    UTF-8, and confluent-kafka does not offer their bytes. A record without its headers is better than no record, or no
    engine.

    confluent-kafka returns such headers with a null pointer for the name, and with an exception pending (2.16). A call
    by way of C notices the exception. The interpreter's own call, once specialised, does not, and the process crashes
    on the result. A second call for the same message returns without an exception.
    """
    found: list[Headers | None] = []
    left = iter(messages)
    # A methodcaller takes three times as long. Consumed headers have bytes as values.
    read = cast("Callable[[Message], Headers | None]", type(messages[0]).headers)
    unreadable = 0
    while True:
        try:
            found.extend(map(read, left))  # keeps what came before a failure
        except SystemError:
            found.append(None)
            unreadable += 1
        else:
            break
    if unreadable:
        place = {"topic": messages[0].topic(), "partition": messages[0].partition()}
        log.error("headers left out: names are not UTF-8", records=unreadable, **place)
    return found


def size_of(messages: Iterable[Message]) -> int:
    """Returns the bytes of keys and values."""
    return sum(len(message) + len(message.key() or b"") for message in messages)
