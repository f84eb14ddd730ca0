"""The CRC32C of bytes of which a few are changed, without reading the others.

A CRC is linear: what a change does to it depends on the change and on how many bytes follow, on nothing else. So the
difference of the changed bytes is taken by itself and moved over what follows, by tables for 1, 2, 4, 8 ... bytes.
Bytes that did not match their CRC do not match the new one either: nothing is healed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from crc32c import crc32c

_ALL_ONES: Final = 0xFFFFFFFF
_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, its lowest power in the highest bit."""
_MOST_BEHIND: Final = (1 << 31) - 1
_Tables: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""What becomes of each byte of a state, the lowest first."""


def patched(crc: int, before: bytes, after: bytes, behind: int) -> int:
    """The CRC32C of bytes that had `crc`, after `before` in them became `after`, with `behind` bytes following, fewer
    than 2^31. Raises ValueError if `before` and `after` are not as long as each other."""
    if len(before) != len(after):
        raise ValueError(f"{len(after)} bytes in place of {len(before)}")
    change = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
    # A CRC begins with all ones and is inverted at its end; that of a difference does neither.
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
    """bits: what becomes of each bit of a state, the lowest first."""
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
    """What 1, 2, 4, 8 ... zero bytes make of a state, up to as many as any request has."""
    tables = _tables([_over_a_zero(1 << bit) for bit in range(32)])
    for _ in range(_MOST_BEHIND.bit_length()):
        yield tables
        tables = _tables([_moved(tables, _moved(tables, 1 << bit)) for bit in range(32)])


_OVER_ZEROS: Final = tuple(_doubled())
