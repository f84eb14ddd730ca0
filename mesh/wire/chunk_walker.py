"""Walks forward through a frame that arrives in chunks, without keeping them: skips Kafka's compact types.

Each length and count is checked against the rest of the frame, and none allocates memory. Bytes to skip need not have
arrived: those after the chunk are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from mesh.wire.errors import ProtocolError
from mesh.wire.reader import MAX_VARINT_BYTES, NO_TAG, tag_order, tag_size

Walk: TypeAlias = Generator[None, None, None]
"""A generator that runs to the end of the chunk, and continues with the next one."""
WalkToNumber: TypeAlias = Generator[None, None, int]

_NOTHING: Final = memoryview(b"")
_MAX_UINT32: Final = 2**32 - 1


class ChunkWalker:
    """The common base of the walkers over one kind of frame. Every step raises ProtocolError if the bytes do not fit.

    length: the bytes of the frame after its length field. is_done: whether the whole frame has arrived, and was
    complete.

    A step is a generator that yields where the chunk ends. No step keeps the chunk in a variable over a yield, because
    a buffer is reused once nothing refers to it.
    """

    __slots__ = ("_behind", "_chunk", "_length", "_position", "_skip", "is_done")

    def __init__(self, length: int) -> None:
        self.is_done = False
        self._length: Final = length
        self._behind = length
        """The bytes of the frame after the chunk."""
        self._chunk = _NOTHING
        self._position = 0
        """The position of the next byte in the chunk."""
        self._skip = 0
        """The bytes to skip at the beginning of the next chunks."""

    def _expect(self, size: int) -> None:
        """Counts received bytes of the frame. Must be called before `_walk_over`."""
        if size > self._behind:
            raise ValueError(f"{size} bytes, and {self._behind} are left of the frame")
        self._behind -= size

    def _walk_over(self, chunk: memoryview, walk: Walk) -> None:
        self._position = min(self._skip, len(chunk))
        self._skip -= self._position
        if not self._skip:
            self._chunk = chunk
            next(walk, None)
            self._chunk = _NOTHING

    def _array(self, element_size: int) -> Walk:
        """Skips a compact array whose elements have a fixed size and tagged fields."""
        left = yield from self._count(element_size + 1)
        while left:
            left -= self._pass_usual_elements(element_size, left)
            if left:
                left -= 1
                yield from self._pass(element_size)
                yield from self._tagged_fields()

    def _pass_usual_elements(self, element_size: int, most: int) -> int:
        """Passes elements that are completely in the chunk and have no tagged fields, and stops at any other. Returns
        their number."""
        chunk, last = self._chunk, self._position + element_size
        passed = 0
        while passed < most and last < len(chunk) and not chunk[last]:
            last += element_size + 1
            passed += 1
        self._position = last - element_size
        return passed

    def _byte_string(self) -> Walk:
        """Skips compact bytes, records or a string; null counts as empty."""
        yield from self._pass((yield from self._count(1)))

    def _tagged_fields(self) -> Walk:
        """Skips tagged fields, none of which the mesh knows."""
        if self._position < len(self._chunk) and not self._chunk[self._position]:
            self._position += 1  # tagged fields are rare
            return
        yield from self._known_tagged_fields({})

    def _known_tagged_fields(self, known: Mapping[int, Callable[[], Walk]]) -> Walk:
        """Skips tagged fields. known: walks over the value of a known one, by its tag."""
        tag = NO_TAG
        for _ in range((yield from self._field_count())):
            tag = yield from self._tag(tag)
            yield from self._tagged_field(tag, known.get(tag))

    def _tag(self, previous: int) -> WalkToNumber:
        tag = yield from self._varint()
        if tag <= previous:
            raise tag_order(tag, previous)
        return tag

    def _tagged_field(self, tag: int, value: Callable[[], Walk] | None) -> Walk:
        """Walks over the size and the contents of a tagged field. value: walks over its value; None if the mesh does
        not know the tag."""
        size = yield from self._varint()
        if value is None:
            yield from self._pass(size)
            return
        left = self._left()
        yield from value()
        if (taken := left - self._left()) != size:
            raise tag_size(tag, size, taken)

    def _field_count(self) -> WalkToNumber:
        return self._affordable((yield from self._varint()), 2)

    def _count(self, element_size: int) -> WalkToNumber:
        """Reads the length of a compact array. element_size: the fewest bytes of an element."""
        return self._affordable(max((yield from self._varint()) - 1, 0), element_size)

    def _varint(self) -> WalkToNumber:
        value = 0
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            while self._position >= len(self._chunk):
                self._affordable(1, 1)
                yield
            byte = self._chunk[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MAX_UINT32
        at = self._length - self._left()
        raise ProtocolError("invalid_varint", f"a varint of more than {MAX_VARINT_BYTES} bytes at {at}")

    def _pass(self, size: int) -> Walk:
        self._position += size
        beyond = self._position - len(self._chunk)
        if beyond > 0:
            self._position -= size
            self._affordable(size, 1)
            self._skip = beyond
            yield

    def _affordable(self, count: int, element_size: int) -> int:
        if count * element_size > (left := self._left()):
            at = self._length - left
            raise ProtocolError("truncated", f"{count * element_size} bytes announced at {at}, {left} left")
        return count

    def _left(self) -> int:
        return len(self._chunk) - self._position + self._behind

    def _finish(self) -> None:
        if left := self._left():
            raise ProtocolError("trailing_bytes", f"{left} bytes after the end of the answer")
        self.is_done = True
