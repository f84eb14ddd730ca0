"""Computes the CRC32C of bytes after a few of them change, without reading the others.

A CRC is linear: the effect of a change depends only on the change and on the number of bytes behind it. So the CRC of
the change is computed alone and moved over the bytes behind it, by tables for 1, 2, 4, 8 ... bytes. Bytes that did not
match their CRC do not match the new one either: nothing is repaired.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from crc32c import crc32c

_ALL_ONES: Final = 0xFFFFFFFF
_POLYNOMIAL: Final = 0x82F63B78
"""The Castagnoli polynomial, with its lowest power in the highest bit."""
_MOST_BEHIND: Final = (1 << 31) - 1
_Tables: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The image of each byte of a CRC state, lowest byte first."""


def patched(crc: int, before: bytes, after: bytes, behind: int) -> int:
    """Returns the CRC32C of bytes that had `crc`, after `before` in them was replaced by `after`. behind: the number of
    bytes that follow, below 2^31. Raises ValueError if `before` and `after` differ in length."""
    if len(before) != len(after):
        raise ValueError(f"{len(after)} bytes in place of {len(before)}")
    change = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
    # A CRC begins with all ones and is inverted at its end. The CRC of a difference needs neither.
    state: int = crc32c(change.to_bytes(len(before), "big"), _ALL_ONES) ^ _ALL_ONES
    for lowest, low, high, highest in _OVER_ZEROS:
        if behind & 1:
            state = lowest[state & 0xFF] ^ low[state >> 8 & 0xFF] ^ high[state >> 16 & 0xFF] ^ highest[state >> 24]
        behind >>= 1
        if not behind:
            break
    return crc ^ state


def _over_a_zero(state: int) -> int:
    for _ in range(8):
        state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
    return state


def _moved(tables: _Tables, state: int) -> int:
    lowest, low, high, highest = tables
    return lowest[state & 0xFF] ^ low[state >> 8 & 0xFF] ^ high[state >> 16 & 0xFF] ^ highest[state >> 24]


def _tables(bits: list[int]) -> _Tables:
    """Returns the tables of a linear map of CRC states. bits: the image of each bit of a state, the lowest first."""
    table = [0] * 256
    found: list[tuple[int, ...]] = []
    for first in range(0, 32, 8):
        for byte in range(1, 256):
            rest = byte & byte - 1
            table[byte] = table[rest] ^ bits[first + (byte ^ rest).bit_length() - 1]
        found.append(tuple(table))
    lowest, low, high, highest = found
    return lowest, low, high, highest


def _doubled() -> Iterator[_Tables]:
    """Yields the tables for 1, 2, 4, 8 ... zero bytes, up to the most bytes of a request."""
    tables = _tables([_over_a_zero(1 << bit) for bit in range(32)])
    for _ in range(_MOST_BEHIND.bit_length()):
        yield tables
        tables = _tables([_moved(tables, _moved(tables, 1 << bit)) for bit in range(32)])


_OVER_ZEROS: Final = tuple(_doubled())
