"""Where the records stand in a Produce request that is whole, and what is said in front of them."""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Final, NamedTuple, TypeAlias

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32
from mesh.wire.spans import Spans

FRAME_HEADER: Final = 12
"""Length, key, version and correlation id."""
_TOPIC_ID: Final = 16
_FIRST_WITH_TOPIC_IDS: Final = 13
_TIMEOUT: Final = 4
_ONE_BYTE: Final = 0x80
"""Varints below it have one byte."""


class ProduceParts(NamedTuple):
    """acks: 0: it is not answered. topics: by name, as far as they have one. records: where those of each partition
    begin and end in the frame."""

    acks: int
    transactional_id: str | None
    topics: list[str]
    records: list[tuple[int, int]]


def body_of(api_key: ApiKey, version: int, frame: memoryview) -> int:
    """Where the body of a request begins in its frame, which has its length in front. Raises ProtocolError."""
    try:
        size, at = _text_length(frame, FRAME_HEADER)
        at += max(size, 0)
        if is_flexible(api_key, version):
            at = _after_tags(frame, at)
    except (IndexError, StructError):
        raise _truncated(frame) from None
    if at > len(frame):
        raise _truncated(frame)
    return at


def client_id_in(frame: Buffer) -> str | None:
    """Of a request whose header has been read. frame: with its length."""
    spans = Spans(memoryview(frame), FRAME_HEADER)
    length = spans.int16()
    return None if length < 0 else spans.text(length)


def parts_of(version: int, frame: memoryview, body: int) -> ProduceParts:
    """frame: with its length. body: where its body begins. Raises ProtocolError.

    Bytes are read straight here, and not by `Spans`: each request of a producer through a union is gone through.
    """
    read = _FLEXIBLE if is_flexible(ApiKey.PRODUCE, version) else _CLASSIC
    try:
        parts, end = _parts(version, frame, body, *read)
    except (IndexError, StructError):
        raise _truncated(frame) from None
    if end > len(frame):
        raise _truncated(frame)
    return parts


def _parts(
    version: int, frame: memoryview, at: int, text_length: _ReadLength, length: _ReadLength, after_tags: _Skip
) -> tuple[ProduceParts, int]:
    """What `parts_of` says, and where it ends. Raises IndexError or struct.error if that is behind the frame."""
    size, at = text_length(frame, at)
    name = _text(frame, at, size) if size >= 0 else None
    at += max(size, 0)
    acks: int = INT16.unpack_from(frame, at)[0]
    topics: list[str] = []
    records: list[tuple[int, int]] = []
    count, at = length(frame, at + INT16.size + _TIMEOUT)
    for _ in range(count):
        if version >= _FIRST_WITH_TOPIC_IDS:
            at += _TOPIC_ID
        else:
            size, at = text_length(frame, at)
            if size >= 0:
                topics.append(_text(frame, at, size))
                at += size
        partitions, at = length(frame, at)
        for _ in range(partitions):
            size, at = length(frame, at + INT32.size)
            if size > 0:
                records.append((at, at + size))
                at += size
            at = after_tags(frame, at)
        at = after_tags(frame, at)
    return ProduceParts(acks, name, topics, records), after_tags(frame, at)


_ReadLength: TypeAlias = Callable[[memoryview, int], tuple[int, int]]
"""A length, or a negative number for null, and where it ends."""
_Skip: TypeAlias = Callable[[memoryview, int], int]


def _compact_length(frame: memoryview, at: int) -> tuple[int, int]:
    byte = frame[at]
    if byte < _ONE_BYTE:
        return byte - 1, at + 1
    spans = Spans(frame, at)
    return spans.compact_length(), spans.position


def _text_length(frame: memoryview, at: int) -> tuple[int, int]:
    size: int = INT16.unpack_from(frame, at)[0]
    if size < -1:
        raise ProtocolError("invalid_length", f"a text of {size} bytes at {at}")
    return size, at + INT16.size


def _length(frame: memoryview, at: int) -> tuple[int, int]:
    return INT32.unpack_from(frame, at)[0], at + INT32.size


def _after_tags(frame: memoryview, at: int) -> int:
    if not frame[at]:
        return at + 1
    spans = Spans(frame, at)
    spans.skip_tagged_fields()
    return spans.position


def _no_tags(frame: memoryview, at: int) -> int:
    return at


_FLEXIBLE: Final[tuple[_ReadLength, _ReadLength, _Skip]] = (_compact_length, _compact_length, _after_tags)
_CLASSIC: Final[tuple[_ReadLength, _ReadLength, _Skip]] = (_text_length, _length, _no_tags)


def _text(frame: memoryview, at: int, size: int) -> str:
    """Bytes that are not UTF-8 are replaced in it, as by `Spans.text`."""
    return str(frame[at : at + size], errors="replace")


def _truncated(frame: memoryview) -> ProtocolError:
    return ProtocolError("truncated", f"a request that ends behind its {len(frame)} bytes")
