"""Requests of any API that are full of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import Tree

TOPIC_ID = UUID(int=7)
_TOPIC_RESOURCE = 2


class NobodyKnows:
    """Which topic has an id is known; nobody may see that one."""

    def topic_name(self, topic_id: UUID, /) -> str | None:
        return "secret" if topic_id == TOPIC_ID else None


def full(api_key: ApiKey, version: int) -> Tree:
    """Two elements of each array; nothing is null."""
    return _struct(layout(api_key, version, Side.REQUEST))


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
    if field.kind is Kind.RESOURCE_TYPE:
        return _TOPIC_RESOURCE
    return -1 if field.kind is Kind.NODE or field.name == "session_epoch" else 0
