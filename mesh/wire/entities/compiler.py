"""Compiles the fields of a message into the steps of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mesh.wire.entities import entity_steps, steps
from mesh.wire.entities.fields import FIXED_SIZES, Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.steps import Step
from mesh.wire.spans import encoded_count

_BROKER: Final = [EntityKind.NODE, EntityKind.HOST, EntityKind.PORT]
_FIXED: Final = {
    (EntityKind.NODE, "int32"): entity_steps.node,
    (EntityKind.PARTITION, "int32"): entity_steps.partition,
    (EntityKind.LEADER_EPOCH, "int32"): entity_steps.leader_epoch,
    (EntityKind.RECORD_EPOCH, "int32"): entity_steps.record_epoch,
    (EntityKind.END_EPOCH, "int32"): entity_steps.end_epoch,
    (EntityKind.END_OFFSET, "int64"): entity_steps.end_offset,
    (EntityKind.PRODUCER, "int64"): entity_steps.producer,
    (EntityKind.TOPIC_ID, "uuid"): entity_steps.topic_id,
    (EntityKind.COORDINATOR_ERROR, "int16"): entity_steps.coordinator_error,
}
_MARKS: Final = frozenset({EntityKind.NONE, EntityKind.RESOURCE_TYPE, EntityKind.KEY_TYPE})
"""Kinds of fields that contain no entity themselves."""

ALL_KINDS: Final = frozenset(EntityKind)
OF_PARTITIONS: Final = frozenset(
    {
        EntityKind.PARTITION,
        EntityKind.LEADER_EPOCH,
        EntityKind.RECORD_EPOCH,
        EntityKind.END_EPOCH,
        EntityKind.END_OFFSET,
    }
)
WITHOUT_PARTITIONS: Final = ALL_KINDS - OF_PARTITIONS
"""All kinds except those of partitions, for messages in which partition numbers and epochs stay the same: there are
many of them, and they need not be read."""
ADDRESSES: Final = frozenset({EntityKind.HOST, EntityKind.PORT, EntityKind.COORDINATOR_ERROR, EntityKind.ENDPOINT_TYPE})
"""The kinds to read if only addresses of brokers are replaced."""


class _Part(NamedTuple):
    """One step, with the fewest bytes that it reads. empty: the bytes that it usually reads if it has no contents; None
    if they vary."""

    step: Step
    minimal_size: int
    has_entities: bool
    empty: bytes | None = None


def compiled(fields: Sequence[Field], is_flexible: bool, kinds: frozenset[EntityKind], is_whole: bool) -> Step:
    """Returns the step that reads a message.

    kinds: the kinds of entities to translate. is_whole: whether bytes after the last such entity are read too, so that
    the whole message must be valid.
    """
    return _Compiler(is_flexible, kinds, is_whole).message(fields)


@dataclass(frozen=True, slots=True)
class _Compiler:
    is_flexible: bool
    kinds: frozenset[EntityKind]
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
        step = steps.Tags({tag: part.step for tag, part in parts.items()}, self.is_whole, is_last)
        has_entities = any(part.has_entities for part in parts.values())
        return _Part(step, 1, has_entities, None if has_entities else encoded_count(-1, True))

    def _plain(self, fields: Sequence[Field]) -> list[_Part]:
        parts: list[_Part] = []
        place = 0
        while place < len(fields):
            kinds = [self._kind(field) for field in fields[place : place + 3]]
            if kinds == _BROKER or kinds == [EntityKind.NONE, EntityKind.HOST, EntityKind.PORT]:
                parts.append(self._broker(fields, fields[place + 3 :]))
                place += 3
            elif kinds[0] is EntityKind.ENDPOINT_TYPE:
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
        if EntityKind.COORDINATOR_ERROR not in map(self._kind, fields):
            return _Part(entity_steps.BrokerFields(self.is_flexible), size, has_entities=True)
        is_error_behind = bool(behind) and self._kind(behind[0]) is EntityKind.COORDINATOR_ERROR
        return _Part(entity_steps.CoordinatorFields(is_error_behind, self.is_flexible), size, has_entities=True)

    def _endpoints(self, behind: Sequence[Field]) -> _Part:
        brokers = _in_sequence(self._plain(behind))
        not_theirs = _Compiler(self.is_flexible, self.kinds - {*_BROKER, *ADDRESSES}, self.is_whole)
        controllers = _in_sequence(not_theirs._plain(behind))
        step = entity_steps.EndpointType(brokers.step, controllers.step)
        return _Part(step, 1 + brokers.minimal_size, brokers.has_entities)

    def _typed(self, kinds: Sequence[EntityKind], fields: Sequence[Field]) -> _Part | None:
        size = 1 + self._text_size
        match kinds:
            case [EntityKind.RESOURCE_TYPE, EntityKind.RESOURCE_NAME]:
                step: Step = entity_steps.TypedText(entity_steps.RESOURCES, self.is_flexible, is_type_first=True)
            case [EntityKind.RESOURCE_NAME, EntityKind.RESOURCE_TYPE]:
                step = entity_steps.TypedText(entity_steps.RESOURCES, self.is_flexible, is_type_first=False)
            case [EntityKind.KEY, EntityKind.KEY_TYPE]:
                step = entity_steps.TypedText(entity_steps.KEYS, self.is_flexible, is_type_first=False)
            case [EntityKind.KEY_TYPE, EntityKind.KEY] if fields[1].is_array and self.is_flexible:
                step = entity_steps.TypedTexts(entity_steps.KEYS)
            case _:
                return None
        return _Part(step, size, has_entities=True)

    def _field(self, field: Field) -> _Part:
        """Compiles a field with one value or an array of values."""
        if not field.is_array:
            return self._value(field, field.is_nullable)
        if (ask := entity_steps.NUMBERS.get(self._kind(field))) is not None:
            numbers = entity_steps.Numbers(ask, self.is_flexible, field.is_nullable)
            return _Part(numbers, self._count_size, has_entities=True)
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
        return EntityKind.HOST in kinds and EntityKind.COORDINATOR_ERROR not in kinds

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

    def _kind(self, field: Field) -> EntityKind:
        """Returns the kind of a field; NONE if it need not be translated."""
        return field.kind if field.kind in self.kinds and field.kind is not None else EntityKind.NONE

    @property
    def _text_size(self) -> int:
        return 1 if self.is_flexible else 2

    @property
    def _count_size(self) -> int:
        return 1 if self.is_flexible else 4


def _in_sequence(parts: Sequence[_Part]) -> _Part:
    """Joins parts into one. Neighbours of fixed size are skipped in one step, together with neighbours that are usually
    empty."""
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
    """Yields the steps of a run: one step, followed by others that are usually empty."""
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
    """Returns the null length of a string or of bytes; one byte in the flexible encoding."""
    return (0).to_bytes(1, "big") if size == 1 else (-1).to_bytes(size, "big", signed=True)
