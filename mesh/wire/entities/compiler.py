"""Makes a program's steps of the fields of a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mesh.wire.entities import entity_steps, steps
from mesh.wire.entities.fields import FIXED_SIZES, Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.steps import Step
from mesh.wire.spans import encoded_count

_BROKER: Final = [Kind.NODE, Kind.HOST, Kind.PORT]
_FIXED: Final = {
    (Kind.NODE, "int32"): entity_steps.node,
    (Kind.PRODUCER, "int64"): entity_steps.producer,
    (Kind.TOPIC_ID, "uuid"): entity_steps.topic_id,
    (Kind.COORDINATOR_ERROR, "int16"): entity_steps.coordinator_error,
}
_MARKS: Final = frozenset({Kind.NONE, Kind.RESOURCE_TYPE, Kind.KEY_TYPE})
"""Kinds of fields that hold no entity and stand alone in some version."""

ALL_KINDS: Final = frozenset(Kind)
ADDRESSES: Final = frozenset({Kind.HOST, Kind.PORT, Kind.COORDINATOR_ERROR, Kind.ENDPOINT_TYPE})
"""What has to be read to replace the addresses of brokers and nothing else."""


class _Part(NamedTuple):
    """One step and the fewest bytes that it reads. empty: what it often reads, if that is always the same."""

    step: Step
    minimal_size: int
    has_entities: bool
    empty: bytes | None = None


def compiled(fields: Sequence[Field], is_flexible: bool, kinds: frozenset[Kind], is_whole: bool) -> Step:
    """The step that reads a message.

    kinds: what is asked about. is_whole: also what is behind the last of it is read, so that all of it must fit.
    """
    return _Compiler(is_flexible, kinds, is_whole).message(fields)


@dataclass(frozen=True, slots=True)
class _Compiler:
    is_flexible: bool
    kinds: frozenset[Kind]
    is_whole: bool

    def message(self, fields: Sequence[Field]) -> Step:
        parts = self._plain([field for field in fields if field.tag is None])
        if self.is_flexible:
            parts.append(self._tags(fields, is_last=not self.is_whole))
        while parts and not self.is_whole and not parts[-1].has_entities:
            parts.pop()
        return _in_sequence(parts).step

    def _struct(self, fields: Sequence[Field]) -> _Part:
        parts = self._plain([field for field in fields if field.tag is None])
        if self.is_flexible:
            parts.append(self._tags(fields, is_last=False))
        return _in_sequence(parts)

    def _tags(self, fields: Iterable[Field], is_last: bool) -> _Part:
        parts = {field.tag: self._field(field) for field in fields if field.tag is not None}
        known = {tag: part.step for tag, part in parts.items() if part.has_entities}
        return _Part(steps.Tags(known, is_last), 1, bool(known), None if known else encoded_count(-1, True))

    def _plain(self, fields: Sequence[Field]) -> list[_Part]:
        parts: list[_Part] = []
        place = 0
        while place < len(fields):
            kinds = [self._kind(field) for field in fields[place : place + 3]]
            if kinds == _BROKER or kinds == [Kind.NONE, Kind.HOST, Kind.PORT]:
                parts.append(self._broker(fields, fields[place + 3 :]))
                place += 3
            elif kinds[0] is Kind.ENDPOINT_TYPE:
                return [*parts, self._endpoints(fields[place + 1 :])]
            elif (typed := self._typed(kinds[:2], fields[place : place + 2])) is not None:
                parts.append(typed)
                place += 2
            else:
                parts.append(self._field(fields[place]))
                place += 1
        return parts

    def _broker(self, fields: Sequence[Field], behind: Sequence[Field]) -> _Part:
        size = 4 + self._text_size + 4
        if Kind.COORDINATOR_ERROR not in map(self._kind, fields):
            return _Part(entity_steps.Broker(self.is_flexible), size, has_entities=True)
        is_error_behind = bool(behind) and self._kind(behind[0]) is Kind.COORDINATOR_ERROR
        return _Part(entity_steps.Coordinator(is_error_behind, self.is_flexible), size, has_entities=True)

    def _endpoints(self, behind: Sequence[Field]) -> _Part:
        brokers = _in_sequence(self._plain(behind))
        not_theirs = _Compiler(self.is_flexible, self.kinds - {*_BROKER, *ADDRESSES}, self.is_whole)
        controllers = _in_sequence(not_theirs._plain(behind))
        step = entity_steps.EndpointType(brokers.step, controllers.step)
        return _Part(step, 1 + brokers.minimal_size, brokers.has_entities)

    def _typed(self, kinds: Sequence[Kind], fields: Sequence[Field]) -> _Part | None:
        size = 1 + self._text_size
        match kinds:
            case [Kind.RESOURCE_TYPE, Kind.RESOURCE_NAME]:
                step: Step = entity_steps.TypedText(entity_steps.RESOURCES, self.is_flexible, is_type_first=True)
            case [Kind.RESOURCE_NAME, Kind.RESOURCE_TYPE]:
                step = entity_steps.TypedText(entity_steps.RESOURCES, self.is_flexible, is_type_first=False)
            case [Kind.KEY, Kind.KEY_TYPE]:
                step = entity_steps.TypedText(entity_steps.KEYS, self.is_flexible, is_type_first=False)
            case [Kind.KEY_TYPE, Kind.KEY] if fields[1].is_array and self.is_flexible:
                step = entity_steps.TypedTexts(entity_steps.KEYS)
            case _:
                return None
        return _Part(step, size, has_entities=True)

    def _field(self, field: Field) -> _Part:
        """Of one value or an array of them."""
        if not field.is_array:
            return self._value(field, field.is_nullable)
        if self._kind(field) is Kind.NODE:
            return _Part(entity_steps.Nodes(self.is_flexible, field.is_nullable), self._count_size, has_entities=True)
        element = self._value(field, is_nullable=False)
        if isinstance(element.step, steps.Skip):
            step: Step = steps.SkipArray(element.minimal_size, self.is_flexible, field.is_nullable)
        elif self._is_list_of_brokers(field):
            step = steps.BrokerArray(element.step, element.minimal_size, self.is_flexible)
        else:
            each = element.step.steps if isinstance(element.step, steps.Sequence) else (element.step,)
            step = steps.Array(each, element.minimal_size, self.is_flexible, field.is_nullable)
        is_often_empty = not (element.has_entities or any(one.is_array for one in field.fields))
        empty = encoded_count(0, self.is_flexible) if is_often_empty else None
        return _Part(step, self._count_size, element.has_entities, empty)

    def _is_list_of_brokers(self, field: Field) -> bool:
        kinds = [self._kind(one) for one in field.fields]
        return Kind.HOST in kinds and Kind.COORDINATOR_ERROR not in kinds

    def _value(self, field: Field, is_nullable: bool) -> _Part:
        if field.wire_type == "struct":
            struct = self._struct(field.fields)
            return _Part(steps.NullableStruct(struct.step), 1, struct.has_entities) if is_nullable else struct
        kind = self._kind(field)
        if kind in _MARKS:
            return self._skipped(field, is_nullable)
        if fixed := _FIXED.get((kind, field.wire_type)):
            return _Part(fixed, FIXED_SIZES[field.wire_type], has_entities=True)
        if field.wire_type == "string" and kind in entity_steps.TEXTS:
            text = entity_steps.Text(entity_steps.TEXTS[kind], self.is_flexible, is_nullable)
            return _Part(text, self._text_size, has_entities=True)
        if field.wire_type == "bytes" and kind in entity_steps.EMBEDDED:
            embedded = entity_steps.Embedded(entity_steps.EMBEDDED[kind], self.is_flexible)
            return _Part(embedded, self._count_size, has_entities=True)
        raise TypeError(f"{field.name} is of {field.wire_type} and cannot hold {kind}")

    def _skipped(self, field: Field, is_nullable: bool) -> _Part:
        if size := FIXED_SIZES.get(field.wire_type):
            return _skip(size)
        if self.is_flexible:
            step: Step = steps.SkipCompact(is_nullable)
        elif field.wire_type == "string":
            step = steps.SkipString(is_nullable)
        else:
            step = steps.SkipBytes(is_nullable)
        size = self._text_size if field.wire_type == "string" else self._count_size
        return _Part(step, size, has_entities=False, empty=_null(size) if is_nullable else None)

    def _kind(self, field: Field) -> Kind:
        """NONE where nobody asks about it."""
        return field.kind if field.kind in self.kinds and field.kind is not None else Kind.NONE

    @property
    def _text_size(self) -> int:
        return 1 if self.is_flexible else 2

    @property
    def _count_size(self) -> int:
        return 1 if self.is_flexible else 4


def _in_sequence(parts: Sequence[_Part]) -> _Part:
    """All parts as one; neighbours of fixed size are passed over at once, and those that are often empty with them."""
    joined: list[_Part] = []
    for part in parts:
        if joined and isinstance(part.step, steps.Skip) and isinstance(joined[-1].step, steps.Skip):
            joined[-1] = _skip(joined[-1].minimal_size + part.minimal_size)
        else:
            joined.append(part)
    passed = tuple(_passed_at_once(joined))
    step = passed[0] if len(passed) == 1 else steps.Sequence(passed)
    return _Part(step, sum(part.minimal_size for part in parts), any(part.has_entities for part in parts))


def _passed_at_once(parts: Iterable[_Part]) -> Iterator[Step]:
    run: list[_Part] = []
    for part in parts:
        if part.empty is None:
            yield from _as_one(run)
            run.clear()
        run.append(part)
    yield from _as_one(run)


def _as_one(run: Sequence[_Part]) -> Iterator[Step]:
    """run: one step, and others behind it that are often empty."""
    if not run:
        return
    first, *others = run
    each = tuple(part.step for part in run)
    if first.empty is None and not isinstance(first.step, steps.Skip):
        yield first.step
        yield from _as_one(others)
    elif len(run) == 1:
        yield first.step
    else:
        size = first.minimal_size if first.empty is None else 0
        empty = b"".join(part.empty or b"" for part in run)
        yield steps.OftenEmpty(size, empty, steps.Sequence(each))


def _skip(size: int) -> _Part:
    return _Part(steps.Skip(size), size, has_entities=False)


def _null(size: int) -> bytes:
    """As the length of a text or of bytes; with one byte, of the flexible encoding."""
    return (0).to_bytes(1, "big") if size == 1 else (-1).to_bytes(size, "big", signed=True)
