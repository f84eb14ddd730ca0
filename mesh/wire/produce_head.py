"""What stands in front of the records of a Produce request: acks, which say whether it is answered at all."""

from __future__ import annotations

from struct import Struct
from typing import Final

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer

_INT16: Final = Struct(">h")
_HEADER: Final = 4 + 2 + 2 + 4
"""Length, key, version and correlation id."""
_LONGEST_VARINT: Final = 5
MOST_TAGS: Final = 16
"""In the header of a request; no version has any. They are gone through each time that more of the request has come."""


class _Short(Exception):
    """More bytes are needed."""


def acks_of(version: int, beginning: Buffer) -> int | None:
    """beginning: of the frame, its length included, as far as it has come. None if more is needed. Raises
    ProtocolError."""
    try:
        at = _after_text(beginning, _HEADER)
        if is_flexible(ApiKey.PRODUCE, version):
            return _int16(beginning, _after_compact_text(beginning, _after_tags(beginning, at)))
        return _int16(beginning, _after_text(beginning, at))
    except _Short:
        return None


def _int16(data: Buffer, at: int) -> int:
    if at + _INT16.size > len(data):
        raise _Short
    value: int = _INT16.unpack_from(data, at)[0]
    return value


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """An unsigned one, and where it ends."""
    value = 0
    for index in range(_LONGEST_VARINT):
        if at + index >= len(data):
            raise _Short
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise ProtocolError("invalid_varint", "an unsigned varint of more than five bytes")


def _after_text(data: Buffer, at: int) -> int:
    length = _int16(data, at)
    if length < -1:
        raise ProtocolError("invalid_length", f"a text of {length} bytes")
    return at + _INT16.size + max(length, 0)


def _after_compact_text(data: Buffer, at: int) -> int:
    length, at = _varint(data, at)
    return at + max(length - 1, 0)


def _after_tags(data: Buffer, at: int) -> int:
    count, at = _varint(data, at)
    if count > MOST_TAGS:
        raise ProtocolError("too_many_elements", f"{count} tagged fields in a header; up to {MOST_TAGS} are allowed")
    for _ in range(count):
        if at >= len(data):
            raise _Short
        _, at = _varint(data, at)
        size, at = _varint(data, at)
        at += size
    return at
