"""Reused receive buffers: new ones for every answer cost a quarter more CPU, in page faults.

Batches are slices of the buffer into which they were received, and keep all of it alive. So a buffer fits its answer:
it comes from a size class, and is a quarter larger at most. A buffer is free when nothing refers to it any more, as its
reference count shows. So no owner of a batch has to return anything, or can forget to.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

_SMALLEST: Final = 64 << 10
"""Smaller buffers are not reused: to allocate them costs less than to search for one."""
_LOOKED_AT: Final = 8
"""The number of buffers of a size class that are checked: the ones handed out longest ago, which are free first."""
_KEPT_FREE: Final = 16 << 20
"""The free bytes that remain when free buffers are dropped. That happens whenever as much has been added."""


def _references(buffers: deque[bytearray]) -> int:
    """Returns the number of references to the last of these buffers, including those of the count itself."""
    return sys.getrefcount(buffers[-1])


_UNUSED: Final = _references(deque([bytearray(1)]))
"""The number of references to a buffer that only its deque refers to. It is measured, since interpreters differ:
CPython 3.14 leaves out references that 3.11 takes (python/cpython#130704), and so does compiled code. A number that is
one too high would reuse a buffer that still holds records."""


class ReceiveBuffers:
    """Buffers for responses of brokers, reused when nothing refers to them. limit: the bytes in buffers from which on
    `is_full` is True. Receivers should then copy what they keep, since a small batch would hold its whole buffer."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._classes: dict[int, deque[bytearray]] = {}
        self._total = 0
        """Bytes of all buffers, used and free."""
        self._drop_at = _KEPT_FREE

    def allocate(self, size: int) -> bytearray:
        """Returns a buffer of at least this size, and at most a quarter more; its content is undefined."""
        if size < _SMALLEST:
            return bytearray(size)
        size = _class_of(size)
        buffers = self._classes.get(size)
        for _ in range(min(len(buffers), _LOOKED_AT) if buffers else 0):
            assert buffers is not None
            buffers.rotate(-1)
            if _references(buffers) == _UNUSED:
                return buffers[-1]
        if self._total + size > self._drop_at:
            self._drop_free()
            self._drop_at = self._total + _KEPT_FREE
        buffer = bytearray(size)
        self._classes.setdefault(size, deque()).append(buffer)
        self._total += size
        return buffer

    @property
    def held(self) -> int:
        """Bytes of buffers that something refers to."""
        held = 0
        for size, buffers in self._classes.items():
            for _ in range(len(buffers)):
                buffers.rotate(-1)
                held += size if _references(buffers) > _UNUSED else 0
        return held

    @property
    def is_full(self) -> bool:
        return self._total > self.limit and self.held > self.limit

    def _drop_free(self) -> None:
        """Drops free buffers, but keeps `_KEPT_FREE` bytes of them, the smaller ones first."""
        room = _KEPT_FREE
        kept: dict[int, deque[bytearray]] = {}
        for size, buffers in sorted(self._classes.items()):
            for _ in range(len(buffers)):
                buffers.rotate(-1)
                is_free = _references(buffers) == _UNUSED
                if is_free and size > room:
                    self._total -= size
                    continue
                room -= size if is_free else 0
                kept.setdefault(size, deque()).append(buffers[-1])
        self._classes = kept


def _class_of(size: int) -> int:
    """Returns the size of the class of a buffer: four classes for each doubling."""
    step = 1 << ((size - 1).bit_length() - 3)
    return -(-size // step) * step
