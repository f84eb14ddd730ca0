"""Cuts a stream that passes through into pieces of frames, without assembling the frames.

A relay needs the position, the length and the first few bytes of each frame; it passes all other bytes on as they
arrive. So nothing is copied, except heads that lie in two chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mesh.wire.errors import ProtocolError
from mesh.wire.reader import INT32

REQUEST_HEAD: Final = Struct(">ihhi")
"""Length, API key, API version and correlation id."""
_ANSWER: Final = Struct(">ii")
_LENGTH: Final = INT32.size


class RequestHead(NamedTuple):
    """The beginning of a request. length: the bytes of the frame after its length field."""

    length: int
    api_key: int
    api_version: int
    correlation_id: int


class AnswerHead(NamedTuple):
    """The beginning of an answer. length: the bytes of the frame after its length field."""

    length: int
    correlation_id: int


HeadT = TypeVar("HeadT", RequestHead, AnswerHead)


class Piece(NamedTuple, Generic[HeadT]):
    """Contiguous bytes of one frame.

    head: the head of the frame, if the frame begins here. buffer: the bytes, including those of the length; a slice of
    the chunk, or a copy of a head that lies in two chunks. is_last: whether the frame ends here. is_whole: whether the
    frame begins and ends here.
    """

    head: HeadT | None
    buffer: memoryview
    is_last: bool
    is_whole: bool


class _Cutter(Generic[HeadT]):
    """The common base of the cutters. It holds back at most an unfinished head. limit: the longest frame that may begin
    from now on, in bytes."""

    __slots__ = ("_held", "_layout", "_left", "_lowest", "_make", "limit", "problem")

    def __init__(self, layout: Struct, make: Callable[[tuple[Any, ...]], HeadT], limit: int) -> None:
        self.limit = limit
        self.problem: ProtocolError | None = None
        """The error that ended the stream, after the pieces that were returned last."""
        self._layout: Final = layout
        self._lowest: Final = layout.size - _LENGTH
        self._make: Final[Callable[[tuple[Any, ...]], HeadT]] = make
        self._left = 0
        """The bytes of the current frame that have not arrived."""
        self._held = bytearray()

    @property
    def is_unfinished(self) -> bool:
        """True if a frame, or its length, has arrived in part."""
        return self._left > 0 or bool(self._held)

    @property
    def left(self) -> int:
        """The bytes of the current frame that have not arrived."""
        return self._left

    def skip(self, count: int) -> None:
        """Notes that this many bytes of the current frame have passed elsewhere."""
        assert count <= self._left
        self._left -= count

    def skip_if_within_frame(self, chunk: memoryview) -> bool:
        """Counts these bytes as passed if the current frame continues after them. Returns False if it does not."""
        left = self._left - len(chunk)
        if left <= 0:
            return False
        self._left = left
        return True

    def cut(self, chunk: memoryview) -> list[Piece[HeadT]]:
        """Returns the pieces of the frames in this chunk, in order. An incomplete head is held back.

        For a length that is too small for a head or above the limit, `problem` is set as soon as the four bytes of the
        length have arrived. The pieces before it are returned; nothing may be cut afterwards.
        """
        pieces: list[Piece[HeadT]] = []
        try:
            self._cut(chunk, pieces)
        except ProtocolError as problem:
            self.problem = problem.with_traceback(None)  # a traceback would keep the chunk alive through its frames
        return pieces

    def _cut(self, chunk: memoryview, pieces: list[Piece[HeadT]]) -> None:
        if self.skip_if_within_frame(chunk):
            pieces.append(Piece(None, chunk, False, False))
            return
        size = len(chunk)
        position = self._complete_head(chunk, pieces) if self._held else 0
        if position < size and self._left:
            position = self._go_on(chunk, position, pieces)
        layout, make, lowest, limit = self._layout, self._make, self._lowest, self.limit
        last = size - layout.size
        while position <= last:
            values = layout.unpack_from(chunk, position)
            length = values[0]
            if not lowest <= length <= limit:
                raise self._bad_length(length)
            start, position = position, position + _LENGTH + length
            is_whole = position <= size
            buffer = chunk if not start and position >= size else chunk[start:position]
            pieces.append(Piece(make(values), buffer, is_whole, is_whole))
        if position > size:
            self._left = position - size
        elif position < size:
            self._hold(chunk[position:])

    def _complete_head(self, chunk: memoryview, pieces: list[Piece[HeadT]]) -> int:
        """Completes a head. Returns the position after it in the chunk."""
        position = min(self._layout.size - len(self._held), len(chunk))
        self._hold(chunk[:position])
        if len(self._held) == self._layout.size:
            head, self._held = self._held, bytearray()
            values = self._layout.unpack(head)
            self._left = _LENGTH + values[0] - len(head)
            is_whole = not self._left
            pieces.append(Piece(self._make(values), memoryview(head), is_whole, is_whole))
        return position

    def _go_on(self, chunk: memoryview, position: int, pieces: list[Piece[HeadT]]) -> int:
        """Continues the current frame. Returns the position after it in the chunk."""
        end = min(position + self._left, len(chunk))
        self._left -= end - position
        pieces.append(Piece(None, chunk[position:end], not self._left, False))
        return end

    def _hold(self, data: memoryview) -> None:
        self._held += data
        if len(self._held) >= _LENGTH:
            (length,) = INT32.unpack_from(self._held)
            if not self._lowest <= length <= self.limit:
                raise self._bad_length(length)

    def _bad_length(self, length: int) -> ProtocolError:
        allowed = f"{self._lowest} to {self.limit} are allowed"
        return ProtocolError("frame_size", f"a frame of {length} bytes; {allowed}")


class RequestCutter(_Cutter[RequestHead]):
    """Cuts a stream of requests into pieces."""

    __slots__ = ()

    def __init__(self, limit: int) -> None:
        super().__init__(REQUEST_HEAD, partial(tuple.__new__, RequestHead), limit)


class AnswerCutter(_Cutter[AnswerHead]):
    """Cuts a stream of answers into pieces."""

    __slots__ = ()

    def __init__(self, limit: int) -> None:
        super().__init__(_ANSWER, partial(tuple.__new__, AnswerHead), limit)
