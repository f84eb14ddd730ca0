"""Memory into which is read what is passed on at once."""

from __future__ import annotations

import sys
from typing import Final

CHUNK: Final = 256 << 10
"""Bytes that are read at once."""
SMALL: Final = 4096
"""Bytes; less is copied, and holds no chunk while it waits."""
MOST: Final = 64
"""Chunks that there are at most."""


def _references(chunks: list[bytearray], index: int) -> int:
    """To one of these, and those that counting them takes."""
    return sys.getrefcount(chunks[index])


_UNUSED: Final = _references([bytearray(1)], 0)
"""Of a chunk that nothing but its list refers to. Measured, for interpreters differ, as in `buffers`."""


class Chunks:
    """Chunks that all connections share: one is free as soon as nothing refers to what was read into it.

    The one that was used last is used again first, since the processor has it at hand: most of the time the kernel has
    taken what was read before anything else is. So an idle connection holds no memory, and a busy one little. When
    `MOST` are held, by clients that do not read say, what is read is copied: a few bytes would hold on to a chunk.
    """

    __slots__ = ("_chunks", "_spare", "_view")

    def __init__(self) -> None:
        self._chunks: list[bytearray] = []
        self._spare: bytearray | None = None
        """Read into when all others are held; what it holds is copied out."""
        self._view: memoryview | None = None

    def take(self) -> memoryview:
        """For one read, which happens at once."""
        self._view = None
        chunks = self._chunks
        is_first_free = chunks and _references(chunks, 0) == _UNUSED
        view = self._view = memoryview(chunks[0] if is_first_free else self._another())
        return view

    def read(self, count: int) -> memoryview:
        """What was read into the chunk that was taken last."""
        assert self._view is not None
        view, self._view = self._view[:count], None
        is_kept = count >= SMALL and view.obj is not self._spare
        return view if is_kept else memoryview(bytearray(view))

    def _another(self) -> bytearray:
        """Another than the first, and from now on the first."""
        chunks = self._chunks
        for index in range(1, len(chunks)):
            if _references(chunks, index) == _UNUSED:
                chunks.insert(0, chunks.pop(index))
                return chunks[0]
        if len(chunks) < MOST:
            chunks.insert(0, bytearray(CHUNK))
            return chunks[0]
        self._spare = self._spare or bytearray(CHUNK)
        return self._spare

    @property
    def held(self) -> int:
        """Bytes of chunks that something refers to."""
        return CHUNK * sum(_references(self._chunks, index) > _UNUSED for index in range(len(self._chunks)))
