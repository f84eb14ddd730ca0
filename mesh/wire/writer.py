"""Encoding of unsigned varints, the one primitive type that `struct` lacks."""

from __future__ import annotations


def encode_unsigned_varint(value: int) -> bytes:
    """Encodes seven bits a byte, lowest first, with the eighth bit set on all bytes but the last. It is used for
    lengths in the flexible encoding. Raises ValueError for a value that is negative or above 32 bits."""
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
