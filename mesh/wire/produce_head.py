"""Reads the acks of a Produce request, which determine whether it has an answer, from its first bytes."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from mesh.wire.apis import KNOWN_APIS, ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import NO_TAG, tag_order

_INT16: Final = Struct(">h")
_HEADER: Final = 4 + 2 + 2 + 4
"""The bytes of length, key, version and correlation id."""
_LONGEST_VARINT: Final = 5
MOST_TAGS: Final = 16
"""The most tagged fields in a request header; no version has any. They are read again each time that more of the
request arrives."""
_FIRST_FLEXIBLE: Final = KNOWN_APIS[ApiKey.PRODUCE].first_flexible


def acks_of(version: int, beginning: Buffer) -> int | None:
    """Returns the acks of a Produce request; None if more bytes are needed. beginning: the first bytes of the frame,
    with its length. Raises ProtocolError."""
    try:
        at = _after_text(beginning, _HEADER)
        if version < _FIRST_FLEXIBLE:
            at = _after_text(beginning, at)
        else:
            at = _after_compact_text(beginning, _after_tags(beginning, at))
        acks: int = _INT16.unpack_from(beginning, at)[0]
    except (IndexError, StructError):
        return None  # the field has not arrived
    return acks


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """Returns an unsigned varint, and the position after it."""
    value = 0
    for index in range(_LONGEST_VARINT):
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise ProtocolError("invalid_varint", "an unsigned varint of more than five bytes")


def _after_text(data: Buffer, at: int) -> int:
    (length,) = _INT16.unpack_from(data, at)
    if length < -1:
        raise ProtocolError("invalid_length", f"a text of {length} bytes")
    return at + _INT16.size + (length if length > 0 else 0)


def _after_compact_text(data: Buffer, at: int) -> int:
    if not data[at]:
        return at + 1  # null: few producers have a transactional id
    length, at = _varint(data, at)
    return at + max(length - 1, 0)


def _after_tags(data: Buffer, at: int) -> int:
    if not data[at]:
        return at + 1
    count, at = _varint(data, at)
    if count > MOST_TAGS:
        raise ProtocolError("too_many_elements", f"{count} tagged fields in a header; up to {MOST_TAGS} are allowed")
    previous = NO_TAG
    for _ in range(count):
        tag, at = _varint(data, at)
        if tag <= previous:
            raise tag_order(tag, previous)
        previous = tag
        size, at = _varint(data, at)
        at += size
    return at
