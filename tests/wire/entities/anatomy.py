"""Messages in parts, which can be changed one by one before they become bytes: lengths, texts, tagged fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from mesh.wire.apis import is_flexible
from mesh.wire.entities.fields import FIXED_SIZES, Field
from mesh.wire.entities.layouts import layout
from mesh.wire.writer import encode_unsigned_varint
from tests.wire.entities.messages import Message

TEXTS = ("", "a", "orders", "grüße", "x" * 130, "\N{GRINNING FACE}")


@dataclass(slots=True)
class Plain:
    """Bytes of one field. is_length: whether they are a length or a count."""

    data: bytes
    is_length: bool = False


@dataclass(slots=True)
class Tagged:
    """A tagged field. more: added to its true size."""

    tag: int
    content: list[Part]
    more: int = 0


@dataclass(slots=True)
class Tags:
    """The tagged fields of one struct."""

    fields: list[Tagged] = field(default_factory=list)


Part: TypeAlias = Plain | Tags


def encoded(parts: Iterable[Part]) -> bytes:
    """The bytes of parts."""
    return b"".join(part.data if isinstance(part, Plain) else _tags(part) for part in parts)


def _tags(tags: Tags) -> bytes:
    body = encode_unsigned_varint(len(tags.fields))
    for each in tags.fields:
        content = encoded(each.content)
        body += encode_unsigned_varint(each.tag) + encode_unsigned_varint(max(len(content) + each.more, 0)) + content
    return body


def sections(parts: Iterable[Part]) -> Iterator[Tags]:
    """All places for tagged fields, those inside of tagged fields included."""
    for part in parts:
        if isinstance(part, Tags):
            yield part
            for each in part.fields:
                yield from sections(each.content)


def lengths(parts: Iterable[Part]) -> Iterator[Plain]:
    """All lengths and counts."""
    for part in parts:
        if isinstance(part, Tags):
            for each in part.fields:
                yield from lengths(each.content)
        elif part.is_length:
            yield part


def parts_of(message: Message, random: Random) -> list[Part]:
    """A random valid message with arrays of up to two elements. Each tagged field is there more often than not."""
    return _struct(layout(*message), is_flexible(*message[:2]), random)


def whole(message: Message) -> list[Part]:
    """A message with two elements in every array, nothing null, and every tagged field."""
    return _struct(layout(*message), is_flexible(*message[:2]), None)


def _struct(fields: Iterable[Field], flexible: bool, random: Random | None) -> list[Part]:
    parts: list[Part] = []
    tagged: list[Tagged] = []
    for each in fields:
        if each.tag is None:
            parts += _field(each, flexible, random)
        elif random is None or random.random() < 0.7:
            tagged.append(Tagged(each.tag, _field(each, flexible, random)))
    if flexible:
        parts.append(Tags(sorted(tagged, key=lambda one: one.tag)))
    return parts


def _field(of: Field, flexible: bool, random: Random | None) -> list[Part]:
    is_null = random is not None and of.is_nullable and random.random() < 0.3
    if of.is_array:
        count = 2 if random is None else random.randrange(3)
        elements = [part for _ in range(0 if is_null else count) for part in _value(of, flexible, random)]
        return [_length(-1 if is_null else count, flexible, 4), *elements]
    if of.wire_type == "struct":
        exists: list[Part] = [Plain(b"\xff" if is_null else b"\1")] if of.is_nullable else []
        return exists if is_null else [*exists, *_value(of, flexible, random)]
    if is_null and of.wire_type not in FIXED_SIZES:
        return [_length(-1, flexible, 2 if of.wire_type == "string" else 4)]
    return _value(of, flexible, random)


def _value(of: Field, flexible: bool, random: Random | None) -> list[Part]:
    if of.wire_type == "struct":
        return _struct(of.fields, flexible, random)
    if size := FIXED_SIZES.get(of.wire_type):
        return [Plain(_fixed(of.wire_type, size, random))]
    content = (TEXTS[2] if random is None else random.choice(TEXTS)).encode()
    return [_length(len(content), flexible, 2 if of.wire_type == "string" else 4), Plain(content)]


def _fixed(wire_type: str, size: int, random: Random | None) -> bytes:
    if wire_type in ("bool", "float64"):
        return bytes(size - 1) + b"\1"
    usual = bytes(size - 1) + b"\7"
    return usual if random is None else random.choice((bytes(size), b"\xff" * size, usual))


def _length(length: int, flexible: bool, size: int) -> Plain:
    return Plain(encode_unsigned_varint(length + 1) if flexible else length.to_bytes(size, "big", signed=True), True)
