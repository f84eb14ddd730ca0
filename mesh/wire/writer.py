"""The one primitive type that `struct` does not know."""

from __future__ import annotations


def encode_unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, lowest first, the eighth bit set on all but the last; lengths of the flexible encoding."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value < 1 << 32:
        raise ValueError(f"a length of {value} has no encoding")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]
