"""Receive buffers that are used again: fresh ones for every answer cost a quarter more CPU, in page faults.

Batches are parts of the buffer they were received into. A buffer is free when nothing refers to it any more, which the
reference count tells: no owner of a batch has to give anything back, and none can forget to.
"""

from __future__ import annotations

import sys
from typing import Final

_SMALLEST: Final = 64 << 10
"""Below it an allocation costs less than looking for a buffer."""
_GRAIN: Final = 256 << 10
_KEPT_FREE: Final = 32 << 20
_UNUSED: Final = 3
"""References to a buffer that only the list has: the list's, the loop's variable, the argument of getrefcount."""


class ReceiveBuffers:
    """limit: bytes that may be held in buffers before `is_full`; whoever receives is to copy out from then on what it
    keeps, since a small batch would hold on to all of its buffer."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffers: list[bytearray] = []

    def allocate(self, size: int) -> bytearray:
        """A buffer of at least so many bytes, their content undefined."""
        if size < _SMALLEST:
            return bytearray(size)
        best: bytearray | None = None
        for buffer in self._buffers:
            is_free = sys.getrefcount(buffer) == _UNUSED
            if is_free and size <= len(buffer) and (best is None or len(buffer) < len(best)):
                best = buffer
        if best is not None:
            return best
        self._drop_free()
        buffer = bytearray(-(-size // _GRAIN) * _GRAIN)
        self._buffers.append(buffer)
        return buffer

    @property
    def held(self) -> int:
        """Bytes of buffers that something refers to."""
        return sum(len(buffer) for buffer in self._buffers if sys.getrefcount(buffer) > _UNUSED)

    @property
    def is_full(self) -> bool:
        return self.held > self._limit

    def _drop_free(self) -> None:
        """All of them are too small for what is asked now: a few are kept."""
        room = _KEPT_FREE
        kept: list[bytearray] = []
        for buffer in self._buffers:
            is_free = sys.getrefcount(buffer) == _UNUSED
            if not is_free or len(buffer) <= room:
                room -= len(buffer) if is_free else 0
                kept.append(buffer)
        self._buffers = kept
