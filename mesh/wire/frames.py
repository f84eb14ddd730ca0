"""Frames: a length in four bytes, big-endian, followed by that many bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT32

MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""In bytes. Consumers send kilobytes; the largest requests are commits and Fetches of very many partitions."""


class FrameSplitter:
    """Cuts a stream into frames. It buffers at most one unfinished frame, with only the part that was received."""

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int = MAX_REQUEST_BYTES) -> None:
        self._buffer = bytearray()
        self.limit = limit

    @property
    def is_unfinished(self) -> bool:
        """True if a frame, or its length, has been received in part."""
        return bool(self._buffer)

    def receive_data(self, data: Buffer) -> list[bytes]:
        """Returns the frames that these bytes complete, without their lengths.

        Raises ProtocolError for a length that is negative or above the limit, as soon as its four bytes are received.
        """
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        start = 0
        with memoryview(buffer) as view:
            while (body := start + INT32.size) <= len(view):
                (length,) = INT32.unpack_from(view, start)
                if not 0 <= length <= self.limit:
                    raise ProtocolError("frame_size", f"a frame of {length} bytes; 0 to {self.limit} are allowed")
                if body + length > len(view):
                    break
                start = body + length
                frames.append(bytes(view[body:start]))
        del buffer[:start]
        return frames


def with_length(pieces: Iterable[Buffer]) -> memoryview:
    """Returns a frame in one writable piece, with its length corrected. pieces: the frame with an earlier length."""
    frame = bytearray().join(pieces)
    INT32.pack_into(frame, 0, len(frame) - INT32.size)
    return memoryview(frame)
