"""Messages of one consume() to batches: runs of one partition, small enough to be shared out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class OffsetsFellBack(ValueError):
    """The offsets do not ascend: from the message at `index` on, they are those of another log."""

    def __init__(self, index: int) -> None:
        super().__init__(f"the offset of message {index} is not above the one before")
        self.index = index


def batches_of(messages: Sequence[Message]) -> list[Batch]:
    """The messages are of one partition and carry no errors. A larger record is a batch by itself.

    Raises OffsetsFellBack.
    """
    batches: list[Batch] = []
    run: list[PlainRecord] = []
    size = 0
    last = -1
    appended: int | None = None
    """When the broker appended the run, for a batch has one such time; None: the producers' times count."""
    for index, message in enumerate(messages):
        kind, timestamp = message.timestamp()
        key = message.key()
        # What comes from a broker is a list with bytes in it; the type says more, for what producers may give.
        headers = cast("Headers | None", message.headers())
        length = len(message) + (len(key) if key else 0)
        if headers:
            length += sum(len(name) + len(content or b"") for name, content in headers)
        if kind == TIMESTAMP_NOT_AVAILABLE:
            timestamp = NO_TIMESTAMP
        its_appended = timestamp if kind == TIMESTAMP_LOG_APPEND_TIME else None
        if size + length > LARGEST_RUN_BYTES or its_appended != appended or len(run) == LARGEST_RUN_RECORDS:
            if run:
                batches.append(encode_batch(run[0][0], run, appended is not None))
            run, size, appended = [], 0, its_appended
        offset = message.offset() or 0
        if offset <= last:
            raise OffsetsFellBack(index)
        run.append((offset, timestamp, key, message.value(), headers))
        last = offset
        size += length
    if run:
        batches.append(encode_batch(run[0][0], run, appended is not None))
    return batches


def size_of(messages: Iterable[Message]) -> int:
    """Bytes of keys and values."""
    return sum(len(message) + len(message.key() or b"") for message in messages)
