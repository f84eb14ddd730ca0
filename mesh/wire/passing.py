"""Cuts a stream that is passed on into pieces of frames, without assembling them.

A relay has to know of each frame where it begins, how long it is, and its first few bytes; all others it hands on as
they came. So nothing is copied here but heads that two chunks share.
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
    """The beginning of a request. length: bytes of the frame, the four of its length not counted."""

    length: int
    api_key: int
    api_version: int
    correlation_id: int


class AnswerHead(NamedTuple):
    """The beginning of an answer. length: bytes of the frame, the four of its length not counted."""

    length: int
    correlation_id: int


HeadT = TypeVar("HeadT", RequestHead, AnswerHead)


class Piece(NamedTuple, Generic[HeadT]):
    """Bytes of one frame that lie together.

    head: of the frame, if it begins here. buffer: the bytes, with those of the length; a slice of the chunk, or a copy
    of a head that two chunks shared. is_last: the frame ends here. is_whole: it begins and ends here.
    """

    head: HeadT | None
    buffer: memoryview
    is_last: bool
    is_whole: bool


class _Cutter(Generic[HeadT]):
    """Holds at most an unfinished head. limit: the longest frame that may begin from now on, in bytes."""

    __slots__ = ("_held", "_layout", "_left", "_lowest", "_make", "limit", "problem")

    def __init__(self, layout: Struct, make: Callable[[tuple[Any, ...]], HeadT], limit: int) -> None:
        self.limit = limit
        self.problem: ProtocolError | None = None
        """What ended the stream, behind the pieces that were returned last."""
        self._layout: Final = layout
        self._lowest: Final = layout.size - _LENGTH
        self._make: Final[Callable[[tuple[Any, ...]], HeadT]] = make
        self._left = 0
        """Bytes of the present frame that have not come."""
        self._held = bytearray()

    @property
    def is_unfinished(self) -> bool:
        """Whether a frame, or its length, has come in part."""
        return self._left > 0 or bool(self._held)

    def is_within_frame(self, chunk: memoryview) -> bool:
        """Whether the present frame goes on behind these bytes, which are passed over then."""
        left = self._left - len(chunk)
        if left <= 0:
            return False
        self._left = left
        return True

    def cut(self, chunk: memoryview) -> list[Piece[HeadT]]:
        """The pieces of the frames in this chunk, in order; a head that is not there as a whole is held back.

        `problem` is set for a length that is too small for a head or above the limit, as soon as its four bytes are
        there. The pieces before it are returned; nothing more may be cut.
        """
        pieces: list[Piece[HeadT]] = []
        try:
            self._cut(chunk, pieces)
        except ProtocolError as problem:
            self.problem = problem.with_traceback(None)  # whose frames have the chunk
        return pieces

    def _cut(self, chunk: memoryview, pieces: list[Piece[HeadT]]) -> None:
        if self.is_within_frame(chunk):
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
        """Where the chunk goes on behind what the head still lacked."""
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
        """Where the chunk goes on behind the present frame."""
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
