"""Codecs that read and write the fields of a message as a tree, made from the table of fields.

Reading checks every length like `mesh.wire.reader`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from mesh.wire.bodies import Body
from mesh.wire.entities.fields import FIXED_SIZES, NO_DEFAULT, Field
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT8, INT16, INT32, INT64, NO_TAG, Cursor
from mesh.wire.spans import encoded_count, encoded_text
from mesh.wire.writer import encode_unsigned_varint

Tree: TypeAlias = dict[str, Any]

ZERO_ID: Final = UUID(int=0)

_UINT16: Final = struct.Struct(">H")
_FLOAT64: Final = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class EncodedElements:
    """Encoded elements of an array, which can replace them in a tree. content: without the count."""

    count: int
    content: bytes


class Codec(Protocol):
    """Reads and writes one kind of value. minimal_size: the fewest bytes of a value."""

    @property
    def minimal_size(self) -> int: ...

    def read(self, cursor: Cursor) -> Any: ...

    def write(self, value: Any, body: bytearray) -> None:
        """Writes a value; None is null."""

    def default(self) -> Any:
        """Returns the zero or empty value, as a new object each time."""


def struct_of(fields: Sequence[Field], is_flexible: bool) -> Struct:
    """Returns the codec of a struct with these fields."""
    plain = tuple(_Member.of(field, is_flexible) for field in fields if field.tag is None)
    tagged = {field.tag: _Member.of(field, is_flexible) for field in fields if field.tag is not None}
    return Struct(plain, MappingProxyType(dict(sorted(tagged.items()))), is_flexible)


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of a struct. default: returns a new default each time. default_value: the same default, for
    comparisons."""

    name: str
    codec: Codec
    is_nullable: bool
    default: Callable[[], Any]
    default_value: Any

    @classmethod
    def of(cls, field: Field, is_flexible: bool) -> _Member:
        codec = _codec(field, is_flexible)
        default = codec.default if field.default is NO_DEFAULT else lambda: field.default
        default_value = default()
        if isinstance(default_value, dict) and not any(
            isinstance(each, dict | list) for each in default_value.values()
        ):
            default = default_value.copy  # faster, and equal to a new one
        return cls(field.kafka_name, codec, field.is_nullable, default, default_value)

    def value_in(self, tree: Mapping[str, Any]) -> Any:
        """Returns the value of this member to write."""
        if self.name not in tree:
            return self.default()
        value = tree[self.name]
        if value is None and not self.is_nullable:
            return self.default()
        return value


@dataclass(frozen=True, slots=True)
class Struct:
    """The codec of a struct. tagged: the tagged fields by tag, in ascending order."""

    plain: tuple[_Member, ...]
    tagged: Mapping[int, _Member]
    is_flexible: bool

    @property
    def minimal_size(self) -> int:
        return sum(member.codec.minimal_size for member in self.plain) + self.is_flexible

    def read(self, cursor: Cursor) -> Tree:
        tree = {member.name: member.codec.read(cursor) for member in self.plain}
        if self.is_flexible:
            for member in self.tagged.values():
                tree[member.name] = member.default()
            if not cursor.skip_empty_tags():
                self._read_tags(cursor, tree)
        return tree

    def write(self, tree: Mapping[str, Any], body: bytearray) -> None:
        for member in self.plain:
            member.codec.write(member.value_in(tree), body)
        if self.is_flexible:
            tags = [written for tag, member in self.tagged.items() if (written := _encoded_tag(tag, member, tree))]
            body += encode_unsigned_varint(len(tags))
            for written in tags:
                body += written

    def encode_elements(self, name: str, elements: Sequence[Any]) -> EncodedElements:
        """Encodes elements for the array field of that name."""
        (codec,) = (member.codec for member in self.plain if member.name == name)
        if not isinstance(codec, _Array):
            raise ValueError(f"{name} is no array")
        content = bytearray()
        for element in elements:
            codec.element.write(element, content)
        return EncodedElements(len(elements), bytes(content))

    def default(self) -> Tree:
        return {member.name: member.default() for member in (*self.plain, *self.tagged.values())}

    def _read_tags(self, cursor: Cursor, tree: Tree) -> None:
        tag = NO_TAG
        for _ in range(cursor.tag_count()):
            tag = cursor.next_tag(tag)
            member = self.tagged.get(tag)
            if member is None:
                cursor.skip_unknown_tagged_field()
            else:
                tree[member.name] = cursor.tagged_value(tag, member.codec.read)


def _encoded_tag(tag: int, member: _Member, tree: Mapping[str, Any]) -> bytes:
    """Returns a tagged field as bytes; empty for a field with its default."""
    value = member.value_in(tree)
    if value == member.default_value:  # as in most messages
        return b""
    content, default = bytearray(), bytearray()
    member.codec.write(value, content)
    member.codec.write(member.default_value, default)
    if content == default:
        return b""
    return encode_unsigned_varint(tag) + encode_unsigned_varint(len(content)) + content


@dataclass(frozen=True, slots=True)
class _NullableStruct:
    """The codec of a struct after a byte that tells whether it exists."""

    inner: Struct

    @property
    def minimal_size(self) -> int:
        return 1

    def read(self, cursor: Cursor) -> Tree | None:
        return None if cursor.int8() < 0 else self.inner.read(cursor)

    def write(self, value: Mapping[str, Any] | None, body: bytearray) -> None:
        body += b"\xff" if value is None else b"\x01"
        if value is not None:
            self.inner.write(value, body)

    def default(self) -> Tree:
        return self.inner.default()


@dataclass(frozen=True, slots=True)
class _Array:
    element: Codec
    is_flexible: bool
    is_nullable: bool

    @property
    def minimal_size(self) -> int:
        return 1 if self.is_flexible else 4

    def read(self, cursor: Cursor) -> list[Any] | None:
        size = self.element.minimal_size
        count = cursor.compact_count(size) if self.is_flexible else cursor.count(size)
        if count >= 0:
            read = self.element.read
            return [read(cursor) for _ in range(count)]
        if self.is_nullable:
            return None
        raise ProtocolError("invalid_length", f"null instead of an array at {cursor.position}")

    def write(self, value: Sequence[Any] | EncodedElements | None, body: bytearray) -> None:
        if isinstance(value, EncodedElements):
            body += encoded_count(value.count, self.is_flexible)
            body += value.content
            return
        body += encoded_count(-1 if value is None else len(value), self.is_flexible)
        for element in value or ():
            self.element.write(element, body)

    def default(self) -> list[Any]:
        return []


@dataclass(frozen=True, slots=True)
class _Text:
    is_flexible: bool
    is_nullable: bool

    @property
    def minimal_size(self) -> int:
        return 1 if self.is_flexible else 2

    def read(self, cursor: Cursor) -> str | None:
        if self.is_nullable:
            return cursor.compact_nullable_string() if self.is_flexible else cursor.nullable_string()
        return cursor.compact_string() if self.is_flexible else cursor.string()

    def write(self, value: str | None, body: bytearray) -> None:
        if value is None:
            body += b"\x00" if self.is_flexible else b"\xff\xff"
        else:
            body += encoded_text(value, self.is_flexible)

    def default(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The codec of bytes."""

    is_flexible: bool
    is_nullable: bool

    @property
    def minimal_size(self) -> int:
        return 1 if self.is_flexible else 4

    def read(self, cursor: Cursor) -> bytes | memoryview | None:
        start = cursor.position
        length = cursor.compact_length() if self.is_flexible else cursor.int32()
        if length < 0 and self.is_nullable:
            return None
        cursor.position = start
        return cursor.compact_byte_string() if self.is_flexible else cursor.byte_string()

    def write(self, value: bytes | None, body: bytearray) -> None:
        body += encoded_count(-1 if value is None else len(value), self.is_flexible)
        body += value or b""

    def default(self) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class _Records(_Bytes):
    """The codec of records. Unlike other bytes, they may be slices of a frame, and may be written in several parts."""

    def read(self, cursor: Cursor) -> bytes | memoryview | None:
        length = cursor.compact_length() if self.is_flexible else cursor.int32()
        return None if length < 0 and self.is_nullable else cursor.records(length)

    def write(self, value: Buffer | tuple[Buffer, ...] | None, body: bytearray) -> None:
        parts = value if isinstance(value, tuple) else (value or b"",)
        body += encoded_count(-1 if value is None else sum(map(len, parts)), self.is_flexible)
        if isinstance(body, Body):
            body.put(parts)
        else:
            for each in parts:
                body += each


@dataclass(frozen=True, slots=True)
class _Fixed:
    """The codec of values of a fixed size."""

    layout: struct.Struct
    zero: Any

    @property
    def minimal_size(self) -> int:
        return self.layout.size

    def read(self, cursor: Cursor) -> Any:
        return cursor.unpack(self.layout)[0]

    def write(self, value: Any, body: bytearray) -> None:
        body += self.layout.pack(value)

    def default(self) -> Any:
        return self.zero


@dataclass(frozen=True, slots=True)
class _Boolean:
    minimal_size: int = 1

    def read(self, cursor: Cursor) -> bool:
        return cursor.boolean()

    def write(self, value: bool, body: bytearray) -> None:
        body += b"\x01" if value else b"\x00"

    def default(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _Id:
    minimal_size: int = 16

    def read(self, cursor: Cursor) -> UUID:
        return cursor.uuid() or ZERO_ID

    def write(self, value: UUID, body: bytearray) -> None:
        body += value.bytes

    def default(self) -> UUID:
        return ZERO_ID


_FIXED: Final[Mapping[str, Codec]] = MappingProxyType(
    {
        "bool": _Boolean(),
        "int8": _Fixed(INT8, 0),
        "int16": _Fixed(INT16, 0),
        "uint16": _Fixed(_UINT16, 0),
        "int32": _Fixed(INT32, 0),
        "int64": _Fixed(INT64, 0),
        "float64": _Fixed(_FLOAT64, 0.0),
        "uuid": _Id(),
    }
)


_OF_VARIABLE_SIZE: Final[Mapping[str, type[_Text | _Bytes]]] = MappingProxyType({"string": _Text, "records": _Records})


def _codec(field: Field, is_flexible: bool) -> Codec:
    if not field.is_array:
        return _value(field, is_flexible, field.is_nullable)
    return _Array(_value(field, is_flexible, is_nullable=False), is_flexible, field.is_nullable)


def _value(field: Field, is_flexible: bool, is_nullable: bool) -> Codec:
    if field.wire_type == "struct":
        inner = struct_of(field.fields, is_flexible)
        return _NullableStruct(inner) if is_nullable else inner
    if field.wire_type in FIXED_SIZES:
        return _FIXED[field.wire_type]
    codec = _OF_VARIABLE_SIZE.get(field.wire_type, _Bytes)
    return codec(is_flexible, is_nullable)
