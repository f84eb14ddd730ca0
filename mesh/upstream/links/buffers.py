"""Receive buffers that are used again: fresh ones for every answer cost a quarter more CPU, in page faults.

Batches are parts of the buffer they were received into, and keep all of it. So a buffer fits its answer: it is taken
from those of its class, which are a quarter larger at most. It is free when nothing refers to it any more, which the
reference count tells: no owner of a batch has to give anything back, and none can forget to.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

_SMALLEST: Final = 64 << 10
"""Below it an allocation costs less than looking for a buffer."""
_LOOKED_AT: Final = 8
"""Buffers of a class that are looked at for a free one: those given out longest ago, which are free first."""
_KEPT_FREE: Final = 16 << 20
"""So much that is free is kept when the free ones are dropped, which happens whenever so much has been added."""


def _references(buffers: deque[bytearray]) -> int:
    """To the last of these, and those that counting them takes."""
    return sys.getrefcount(buffers[-1])


_UNUSED: Final = _references(deque([bytearray(1)]))
"""Of a buffer that nothing but its deque refers to. Measured, for interpreters differ: CPython 3.14 does without some
references that 3.11 takes while it looks (python/cpython#130704), and so does compiled code. A number that is one too
high would give out a buffer that still holds somebody's records."""


class ReceiveBuffers:
    """Buffers for responses of brokers, used again when nobody refers to them. limit: bytes that may be held in buffers
    before `is_full`; whoever receives is to copy out from then on what it keeps, since a small batch would hold on to
    all of its buffer."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._classes: dict[int, deque[bytearray]] = {}
        self._total = 0
        """Bytes of all buffers, held and free."""
        self._drop_at = _KEPT_FREE

    def allocate(self, size: int) -> bytearray:
        """A buffer of at least so many bytes, and at most a quarter more; their content is undefined."""
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
        """A few are kept, the smaller ones first."""
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
    """Four classes for each doubling."""
    step = 1 << ((size - 1).bit_length() - 3)
    return -(-size // step) * step
