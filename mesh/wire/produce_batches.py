"""Finds the records in a whole Produce request, and the fields before them."""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Final, NamedTuple, TypeAlias

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.frames import with_length
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32
from mesh.wire.spans import MAX_REQUEST_ELEMENTS, Spans, too_many_elements
from mesh.wire.text import text_of

FRAME_HEADER: Final = 12
"""The bytes of length, key, version and correlation id."""
_TOPIC_ID: Final = 16
FIRST_WITH_TOPIC_IDS: Final = 13
"""The first version of Produce with topic ids instead of names (KIP-516)."""
_TIMEOUT: Final = 4
_ONE_BYTE: Final = 0x80
"""Varints below this value have one byte."""


class ProduceParts(NamedTuple):
    """The parts of a Produce request. acks: 0 for no answer. topics: the topic names, if the version has names.
    records: the start and end of each partition's records in the frame. is_exact: whether the request has nothing
    else: no unknown tagged fields, no bytes after the last field, and no text that is not UTF-8."""

    acks: int
    transactional_id: str | None
    topics: list[str]
    records: list[tuple[int, int]]
    is_exact: bool


def body_of(api_key: ApiKey, version: int, frame: memoryview) -> int:
    """Returns the position of the body of a request in its frame, which has its length in front. Raises
    ProtocolError."""
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


def without_header_tags(api_key: ApiKey, version: int, frame: memoryview) -> tuple[memoryview, int]:
    """Returns a request without the tagged fields of its header, and the position of its body. No version has any, so
    nearly always the frame stays the same. Raises ProtocolError."""
    try:
        size, at = _text_length(frame, FRAME_HEADER)
        at += max(size, 0)
        if not is_flexible(api_key, version):
            if at > len(frame):
                raise _truncated(frame)
            return frame, at
        if not frame[at]:
            return frame, at + 1
    except (IndexError, StructError):
        raise _truncated(frame) from None
    body = body_of(api_key, version, frame)
    return with_length([frame[:at], b"\0", frame[body:]]), at + 1


def client_id_in(frame: Buffer) -> str | None:
    """Returns the client id of a request whose header has been read before. frame: with its length."""
    spans = Spans(memoryview(frame), FRAME_HEADER)
    length = spans.int16()
    return None if length < 0 else spans.text(length)


def parts_of(version: int, frame: memoryview, body: int) -> ProduceParts:
    """Returns the parts of a Produce request. frame: with its length. body: the position of its body. Raises
    ProtocolError.

    Bytes are read directly and not with `Spans`, for speed: this runs for each request of a producer through a union.
    """
    text_length, length, after_tags = FLEXIBLE if is_flexible(ApiKey.PRODUCE, version) else CLASSIC
    try:
        try:
            parts, end = _parts(version, frame, body, text_length, length, after_tags, text_at)
        except (_Tagged, UnicodeDecodeError):
            after_tags = _no_tags if after_tags is _no_tags else _TagSkipper(frame)
            parts, end = _parts(version, frame, body, text_length, length, after_tags, _any_text_at)
            parts = parts._replace(is_exact=False)
    except (IndexError, StructError):
        raise _truncated(frame) from None
    if end > len(frame):
        raise _truncated(frame)
    return parts if end == len(frame) else parts._replace(is_exact=False)


def _parts(
    version: int,
    frame: memoryview,
    at: int,
    text_length: _ReadLength,
    length: _ReadLength,
    after_tags: _Skip,
    text_at: _ReadText,
) -> tuple[ProduceParts, int]:
    """Returns the parts for `parts_of`, and the position after them. Raises IndexError or struct.error if that is
    beyond the frame."""
    size, at = text_length(frame, at)
    name = text_at(frame, at, size) if size >= 0 else None
    at += max(size, 0)
    acks: int = INT16.unpack_from(frame, at)[0]
    topics: list[str] = []
    records: list[tuple[int, int]] = []
    count, at = length(frame, at + INT16.size + _TIMEOUT)
    left = _left_after(count, MAX_REQUEST_ELEMENTS)
    for _ in range(count):
        if version >= FIRST_WITH_TOPIC_IDS:
            at += _TOPIC_ID
        else:
            size, at = text_length(frame, at)
            if size >= 0:
                topics.append(text_at(frame, at, size))
                at += size
        partitions, at = length(frame, at)
        left = _left_after(partitions, left)
        for _ in range(partitions):
            size, at = length(frame, at + INT32.size)
            if size > 0:
                records.append((at, at + size))
                at += size
            at = after_tags(frame, at)
        at = after_tags(frame, at)
    return ProduceParts(acks, name, topics, records, is_exact=True), after_tags(frame, at)


def _left_after(count: int, left: int) -> int:
    """Returns how many more elements may be read after `count` of them."""
    if count > left:
        raise too_many_elements()
    return left - max(count, 0)


_ReadLength: TypeAlias = Callable[[memoryview, int], tuple[int, int]]
"""Returns a length, negative for null, and the position after it."""
_Skip: TypeAlias = Callable[[memoryview, int], int]
_ReadText: TypeAlias = Callable[[memoryview, int, int], str]
Reads: TypeAlias = tuple[_ReadLength, _ReadLength, _Skip]
"""Functions that read the length of a string, read that of an array or of bytes, and skip tagged fields."""


def _compact_length(frame: memoryview, at: int) -> tuple[int, int]:
    byte = frame[at]
    if byte < _ONE_BYTE:
        return byte - 1, at + 1
    if (second := frame[at + 1]) < _ONE_BYTE:
        return (byte & 0x7F | second << 7) - 1, at + 2
    if (third := frame[at + 2]) < _ONE_BYTE:
        return (byte & 0x7F | (second & 0x7F) << 7 | third << 14) - 1, at + 3
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


class _TagSkipper:
    """Skips the tagged fields of a frame. They are counted over the whole frame."""

    def __init__(self, frame: memoryview) -> None:
        self._spans = Spans(frame, 0)

    def __call__(self, frame: memoryview, at: int) -> int:
        self._spans.position = at
        self._spans.skip_tagged_fields()
        return self._spans.position


class _Tagged(Exception):
    """Raised for tagged fields, which are rare."""


def _after_empty_tags(frame: memoryview, at: int) -> int:
    if frame[at]:
        raise _Tagged
    return at + 1


def _no_tags(frame: memoryview, at: int) -> int:
    return at


FLEXIBLE: Final[Reads] = (_compact_length, _compact_length, _after_empty_tags)
CLASSIC: Final[Reads] = (_text_length, _length, _no_tags)


def text_at(frame: memoryview, at: int, size: int) -> str:
    """Returns a string of `size` bytes. Raises UnicodeDecodeError for bytes that are not UTF-8."""
    return str(frame[at : at + size], "utf-8")


def _any_text_at(frame: memoryview, at: int, size: int) -> str:
    return text_of(frame[at : at + size])


def _truncated(frame: memoryview) -> ProtocolError:
    return ProtocolError("truncated", f"a request that ends behind its {len(frame)} bytes")
