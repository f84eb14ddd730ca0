"""Every message that a relay passes on, as bytes: from kio, or after the table where kio lacks the version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TypeAlias

from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import FIXED_SIZES, Field
from mesh.wire.entities.layouts import layout
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.writer import encode_unsigned_varint
from tests.wire.entities import encode, sample

Message: TypeAlias = tuple[ApiKey, int, Direction]

MESSAGES: list[Message] = [
    (api_key, version, side)
    for api_key, versions in RELAYED_APIS.items()
    for version in versions.all()
    for side in Direction
]
"""All of them."""


def by_side(messages: Iterable[Message]) -> list[list[Message]]:
    """The versions of each request and each answer. Parametrize with it: a test of each version takes longer to find
    than to run."""
    versions: dict[tuple[ApiKey, Direction], list[Message]] = {}
    for message in messages:
        versions.setdefault((message[0], message[2]), []).append(message)
    return list(versions.values())


BY_SIDE = by_side(MESSAGES)


def named(message: Message) -> str:
    """Names of messages, for pytest."""
    api_key, version, side = message
    return f"{api_key.name}-{version}-{side.name}"


def named_side(versions: Sequence[Message]) -> str:
    """Names of elements of `by_side`, for pytest."""
    api_key, _, side = versions[0]
    return f"{api_key.name}-{side.name}"


def schema_of(api_key: ApiKey, version: int, side: Direction) -> type | None:
    """kio's class; None if kio lacks the version."""
    try:
        return (
            load_request_schema(api_key, version)
            if side is Direction.REQUEST
            else load_response_schema(api_key, version)
        )
    except (UnknownAPIKey, UnknownEntity):
        return None


def sample_body(api_key: ApiKey, version: int, side: Direction) -> bytes:
    """Two elements in every array, nothing null, every tagged field."""
    schema = schema_of(api_key, version, side)
    if schema is not None:
        return encode(sample(schema))
    return written(layout(api_key, version, side), is_flexible(api_key, version), count(1))


def written(fields: Sequence[Field], flexible: bool, numbers: Iterator[int]) -> bytes:
    """A struct of sample values; those of tagged fields stand behind all others."""
    body = b"".join(_field(field, flexible, numbers) for field in fields if field.tag is None)
    if not flexible:
        return body
    tags = sorted((field.tag, _field(field, True, numbers)) for field in fields if field.tag is not None)
    varint = encode_unsigned_varint
    return body + varint(len(tags)) + b"".join(varint(tag) + varint(len(value)) + value for tag, value in tags)


def _field(field: Field, flexible: bool, numbers: Iterator[int]) -> bytes:
    if field.is_array:
        return _length(2, flexible, 4) + b"".join(_value(field, flexible, numbers) for _ in range(2))
    there = b"\x01" if field.wire_type == "struct" and field.is_nullable else b""
    return there + _value(field, flexible, numbers)


def _value(field: Field, flexible: bool, numbers: Iterator[int]) -> bytes:
    if field.wire_type == "struct":
        return written(field.fields, flexible, numbers)
    number = next(numbers)
    if size := FIXED_SIZES.get(field.wire_type):
        return (number % 100).to_bytes(size, "big")
    text = b"text-%d" % number
    return _length(len(text), flexible, 2 if field.wire_type == "string" else 4) + text


def _length(length: int, flexible: bool, size: int) -> bytes:
    return encode_unsigned_varint(length + 1) if flexible else length.to_bytes(size, "big")
