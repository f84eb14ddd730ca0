"""Zig-zag varints, as records of format version 2 have them (protocol buffers' sint)."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 10
"""The most bytes of a varint: 64 bits."""


def encode_varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Returns the value at `position`, and where it ends. Raises ValueError if it has no end, IndexError beyond the
    data."""
    value = shift = 0
    for _ in range(LONGEST):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ValueError("a varint of more than ten bytes")
