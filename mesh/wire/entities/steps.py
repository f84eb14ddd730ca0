"""Steps of a program that pass over what holds no entity, and those that repeat or nest others.

A step reads one or more fields where a walk stands and leaves it behind them. It raises ProtocolError for bytes that do
not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from mesh.wire.entities.handler import Entities
from mesh.wire.errors import ProtocolError
from mesh.wire.spans import Spans, encoded_count
from mesh.wire.writer import encode_unsigned_varint


class Walk(Spans):
    """The way through one frame.

    is_left_out: whether clients cannot reach the broker that has just been read; who reads the list takes note.
    error_at: where the error code of a coordinator begins, and how many spans were replaced in front of it.
    """

    __slots__ = ("error_at", "is_left_out", "to")

    def __init__(self, frame: memoryview, position: int, to: Entities) -> None:
        super().__init__(frame, position)
        self.to: Final = to
        self.is_left_out = False
        self.error_at = (0, 0)


Step: TypeAlias = Callable[[Walk], None]


def null(walk: Walk, what: str) -> ProtocolError:
    return ProtocolError("invalid_length", f"null instead of {what} at {walk.position}")


@dataclass(frozen=True, slots=True)
class Skip:
    """Passes over so many bytes."""

    size: int

    def __call__(self, walk: Walk) -> None:
        position = walk.position + self.size
        if position > walk.end:
            raise walk.unfit(self.size)
        walk.position = position


@dataclass(frozen=True, slots=True)
class SkipString:
    """Passes over a string with two bytes of length."""

    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        length = walk.int16()
        if length >= 0:
            walk.skip(length)
        elif not self.is_nullable:
            raise null(walk, "a string")


@dataclass(frozen=True, slots=True)
class SkipBytes:
    """Passes over bytes or records with four bytes of length."""

    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        length = walk.int32()
        if length >= 0:
            walk.skip(length)
        elif not self.is_nullable:
            raise null(walk, "bytes")


@dataclass(frozen=True, slots=True)
class SkipCompact:
    """Passes over a string, bytes or records of the flexible encoding."""

    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        length = walk.compact_length()
        if length > 0:
            walk.skip(length)
        elif length < 0 and not self.is_nullable:
            raise null(walk, "a string or bytes")


@dataclass(frozen=True, slots=True)
class Sequence:
    """Several steps."""

    steps: tuple[Step, ...]

    def __call__(self, walk: Walk) -> None:
        for step in self.steps:
            step(walk)


@dataclass(frozen=True, slots=True)
class OftenEmpty:
    """Passes over fields that are empty most of the time, all at once then, and over so many bytes in front of them.

    otherwise: what passes over all of it where one of them is not empty.
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
    """A struct behind a byte that says whether it is there."""

    content: Step

    def __call__(self, walk: Walk) -> None:
        if walk.int8() >= 0:
            self.content(walk)


@dataclass(frozen=True, slots=True)
class Array:
    """An array of elements that have so many bytes at least."""

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
    """Passes over an array of elements that have so many bytes each."""

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
    """An array of structs with addresses; those that clients cannot reach are left out of it."""

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
    """Tagged fields. Those that hold entities are read, each within its size, which changes with them.

    is_last: nothing behind those that are known is looked at.
    """

    known: Mapping[int, Step]
    is_last: bool

    def __call__(self, walk: Walk) -> None:
        if walk.has_no_tags():
            return
        known = self.known
        wanted = len(known)
        for _ in range(walk.tag_count()):
            step = known.get(walk.unsigned_varint())
            if step is None:
                walk.skip(walk.unsigned_varint())
                continue
            _read_tag(walk, step)
            wanted -= 1
            if self.is_last and not wanted:
                return


def _read_tag(walk: Walk, step: Step) -> None:
    at, place = walk.position, len(walk.replaced)
    size = walk.unsigned_varint()
    start, outer_end = walk.position, walk.end
    walk.skip(size)
    walk.position, walk.end = start, start + size
    step(walk)
    walk.position, walk.end = start + size, outer_end
    if grown := walk.grown_by(place):
        walk.insert(place, at, start, encode_unsigned_varint(size + grown))
