"""Memory for data that is passed on at once."""

from __future__ import annotations

import sys
from typing import Final

CHUNK: Final = 256 << 10
"""Bytes read at once."""
SMALL: Final = 4096
"""A number of bytes. Smaller reads are copied, so that they hold no chunk while they wait."""
MOST: Final = 64
"""The most chunks."""


def _references(chunks: list[bytearray], index: int) -> int:
    """Returns the number of references to one of these chunks, including those of the count itself."""
    return sys.getrefcount(chunks[index])


_UNUSED: Final = _references([bytearray(1)], 0)
"""The number of references to a chunk that only its list refers to. It is measured, as in `buffers`."""


class Chunks:
    """Chunks that all connections share. A chunk is free as soon as nothing refers to its data.

    The chunk used last is used first, since it is in the processor's cache: usually the kernel has taken its data
    before the next read. So an idle connection holds no memory, and a busy one little. When `MOST` chunks are in use,
    for example because clients do not read, data is copied: otherwise a few bytes would hold a chunk.
    """

    __slots__ = ("_chunks", "_spare", "_view")

    def __init__(self) -> None:
        self._chunks: list[bytearray] = []
        self._spare: bytearray | None = None
        """The chunk to read into when all others are in use. Its data is copied out."""
        self._view: memoryview | None = None

    def take(self) -> memoryview:
        """Returns a chunk for one read, which must follow at once."""
        self._view = None
        chunks = self._chunks
        is_first_free = chunks and _references(chunks, 0) == _UNUSED
        view = self._view = memoryview(chunks[0] if is_first_free else self._another())
        return view

    def read(self, count: int) -> memoryview:
        """Returns the bytes read into the chunk that was taken last."""
        assert self._view is not None
        view, self._view = self._view[:count], None
        is_kept = count >= SMALL and view.obj is not self._spare
        return view if is_kept else memoryview(bytearray(view))

    def _another(self) -> bytearray:
        """Returns a free chunk other than the first, and makes it the first."""
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
