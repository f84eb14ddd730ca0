"""Requests of any API with names in every field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import Tree

TOPIC_ID = UUID(int=7)
_TOPIC_RESOURCE = 2


class NobodyKnows:
    """Knows the name of one topic id; clients may not see that topic."""

    def topic_name(self, topic_id: UUID, /) -> str | None:
        return "secret" if topic_id == TOPIC_ID else None


def full(api_key: ApiKey, version: int) -> Tree:
    """A request with two elements in each array, and nothing null."""
    return _struct(layout(api_key, version, Direction.REQUEST))


def _struct(fields: Sequence[Field]) -> Tree:
    return {field.kafka_name: _value(field) for field in fields}


def _value(field: Field) -> Any:
    if field.is_array:
        return [_one(field, place) for place in range(2)]
    return _one(field, 0)


def _one(field: Field, place: int) -> Any:
    if field.fields:
        return _struct(field.fields)
    match field.wire_type:
        case "string":
            return f"name-{place}"
        case "bytes" | "records":
            return b""
        case "uuid":
            return TOPIC_ID
        case "bool":
            return False
        case _:
            return _number(field)


def _number(field: Field) -> int:
    if field.kind is EntityKind.RESOURCE_TYPE:
        return _TOPIC_RESOURCE
    return -1 if field.kind is EntityKind.NODE or field.name == "session_epoch" else 0
