"""Steps of a program that skip fields without entities, and steps that repeat or contain others.

A step reads one or more fields at the position of a walk, and moves the position behind them. It raises ProtocolError
for invalid bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from mesh.wire.entities.handler import EntityTranslator
from mesh.wire.errors import ProtocolError
from mesh.wire.reader import NO_TAG, tag_size
from mesh.wire.spans import MAX_REQUEST_ELEMENTS, Spans, encoded_count
from mesh.wire.writer import encode_unsigned_varint


class Walk(Spans):
    """The state of a program's run over one frame. translator: translates the entities.

    is_left_out: whether clients cannot reach the broker that was read last; the step that reads its list uses it.
    error_at: the position of a coordinator's error code, and the number of replaced spans before it.
    """

    __slots__ = ("error_at", "is_left_out", "translator")

    def __init__(
        self,
        frame: memoryview,
        position: int,
        translator: EntityTranslator,
        most_elements: int = MAX_REQUEST_ELEMENTS,
    ) -> None:
        super().__init__(frame, position, most_elements)
        self.translator: Final = translator
        self.is_left_out = False
        self.error_at = (0, 0)


Step: TypeAlias = Callable[[Walk], None]


def null(walk: Walk, what: str) -> ProtocolError:
    return ProtocolError("invalid_length", f"null instead of {what} at {walk.position}")


@dataclass(frozen=True, slots=True)
class Skip:
    """Skips a fixed number of bytes."""

    size: int

    def __call__(self, walk: Walk) -> None:
        position = walk.position + self.size
        if position > walk.end:
            raise walk.unfit(self.size)
        walk.position = position


@dataclass(frozen=True, slots=True)
class SkipString:
    """Skips a string with a length of two bytes."""

    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        length = walk.int16()
        if length >= 0:
            walk.skip(length)
        elif not self.is_nullable:
            raise null(walk, "a string")


@dataclass(frozen=True, slots=True)
class SkipBytes:
    """Skips bytes or records with a length of four bytes."""

    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        length = walk.int32()
        if length >= 0:
            walk.skip(length)
        elif not self.is_nullable:
            raise null(walk, "bytes")


@dataclass(frozen=True, slots=True)
class SkipCompact:
    """Skips a string, bytes or records in the flexible encoding."""

    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        length = walk.compact_length()
        if length > 0:
            walk.skip(length)
        elif length < 0 and not self.is_nullable:
            raise null(walk, "a string or bytes")


@dataclass(frozen=True, slots=True)
class Sequence:
    """Runs several steps one after the other."""

    steps: tuple[Step, ...]

    def __call__(self, walk: Walk) -> None:
        for step in self.steps:
            step(walk)


@dataclass(frozen=True, slots=True)
class OftenEmpty:
    """Skips bytes of a fixed size and the fields after them, which are usually empty, in one comparison.

    otherwise: skips all of them one by one if any field is not empty.
    """

    size: int
    empty: bytes
    otherwise: Step

    def __call__(self, walk: Walk) -> None:
        start = walk.position + self.size
        end = start + len(self.empty)
        if end <= walk.end and walk.frame[start:end] == self.empty:
            walk.position = end
        else:
            self.otherwise(walk)


@dataclass(frozen=True, slots=True)
class NullableStruct:
    """Reads a struct after a byte that tells whether it exists."""

    content: Step

    def __call__(self, walk: Walk) -> None:
        if walk.int8() >= 0:
            self.content(walk)


@dataclass(frozen=True, slots=True)
class Array:
    """Reads an array. element_size: the fewest bytes of an element."""

    element: tuple[Step, ...]
    element_size: int
    is_flexible: bool
    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        count = walk.count(self.element_size, self.is_flexible)
        if count > 0:
            for _ in range(count):
                for step in self.element:
                    step(walk)
        elif count < 0 and not self.is_nullable:
            raise null(walk, "an array")


@dataclass(frozen=True, slots=True)
class SkipArray:
    """Skips an array whose elements have a fixed size."""

    element_size: int
    is_flexible: bool
    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        count = walk.count(self.element_size, self.is_flexible)
        if count >= 0:
            walk.skip(count * self.element_size)
        elif not self.is_nullable:
            raise null(walk, "an array")


@dataclass(frozen=True, slots=True)
class BrokerArray:
    """Reads an array of structs with addresses, and leaves out brokers that clients cannot reach."""

    element: Step
    element_size: int
    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start, place = walk.position, len(walk.replaced)
        count = walk.count(self.element_size, self.is_flexible)
        if count < 0:
            raise null(walk, "an array")
        counted, left_out = walk.position, 0
        for _ in range(count):
            left_out += self._is_left_out(walk)
        if left_out:
            walk.insert(place, start, counted, encoded_count(count - left_out, self.is_flexible))

    def _is_left_out(self, walk: Walk) -> bool:
        start, place = walk.position, len(walk.replaced)
        self.element(walk)
        if not walk.is_left_out:
            return False
        walk.is_left_out = False
        del walk.replaced[place:]
        walk.replace(start, walk.position, b"")
        return True


@dataclass(frozen=True, slots=True)
class Tags:
    """Reads tagged fields. Those with entities are translated, and their sizes are changed if necessary.

    known: reads the value of a known one, by its tag. leaves_out: whether unknown fields are left out: a broker or a
    client that knows them could find entities in them. is_last: whether fields after the known ones need not be read.
    """

    known: Mapping[int, Step]
    leaves_out: bool
    is_last: bool

    def __call__(self, walk: Walk) -> None:
        if walk.skip_empty_tags():
            return
        place, start = len(walk.replaced), walk.position
        count = walk.tag_count()
        counted, tag, left_out, left = walk.position, NO_TAG, 0, len(self.known)
        for _ in range(count):
            if self.is_last and not left:
                return
            at = walk.position
            tag = walk.next_tag(tag)
            step = self.known.get(tag)
            if step is not None:
                _read_tag(walk, tag, step)
                left -= 1
                continue
            walk.skip(walk.unsigned_varint())
            if self.leaves_out:
                walk.replace(at, walk.position, b"")
                left_out += 1
        if left_out:
            walk.insert(place, start, counted, encode_unsigned_varint(count - left_out))


def _read_tag(walk: Walk, tag: int, step: Step) -> None:
    at, place = walk.position, len(walk.replaced)
    size = walk.unsigned_varint()
    start = walk.position
    step(walk)
    if walk.position != start + size:
        raise tag_size(tag, size, walk.position - start)
    if grown := walk.grown_by(place):
        walk.insert(place, at, start, encode_unsigned_varint(size + grown))
