"""The fields of every message that a relay passes on, each with its kind, from kio's classes and the supplement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId

from mesh.wire.apis import ApiKey
from mesh.wire.entities.classification import kind_of
from mesh.wire.entities.fields import FIXED_SIZES, NO_DEFAULT, Default, Field
from mesh.wire.entities.kinds import Direction, EntityKind
from mesh.wire.entities.supplement import NULL_BY_DEFAULT, SUPPLEMENT, Later
from mesh.wire.schema import SchemaField, schema_fields

_ENTITY_TYPES: Final[Mapping[type, EntityKind]] = MappingProxyType(
    {
        BrokerId: EntityKind.NODE,
        GroupId: EntityKind.GROUP,
        ProducerId: EntityKind.PRODUCER,
        TopicName: EntityKind.TOPIC,
        TransactionalId: EntityKind.TRANSACTIONAL_ID,
    }
)
"""The kinds of kio's types for Kafka's entity types."""

_WIRE_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
)
"""Kafka's types for kio's own types, which contain no entity."""


@cache
def layout(api_key: ApiKey, version: int, side: Direction) -> tuple[Field, ...]:
    """Returns the fields of a message in the order of the encoding, each with its kind. Raises TypeError for a field
    without a kind."""
    return _classified(api_key, side, _fields(api_key, version, side), "")


def _fields(api_key: ApiKey, version: int, side: Direction) -> tuple[Field, ...]:
    match SUPPLEMENT.get((api_key, version, side)):
        case None:
            load = load_request_schema if side is Direction.REQUEST else load_response_schema
            return _of_kio(load(api_key, version))
        case Later() as later:
            return later.applied(_fields(api_key, later.of, side))
        case fields:
            return fields


def _classified(api_key: ApiKey, side: Direction, fields: tuple[Field, ...], path: str) -> tuple[Field, ...]:
    classified = []
    for field in fields:
        place = f"{path}{field.name}"
        kind = kind_of((api_key, side, place), field)
        if kind is None:
            raise TypeError(f"{api_key.name} {side.name}: nobody has said what {place} ({field.wire_type}) holds")
        default = None if (api_key, side, place) in NULL_BY_DEFAULT else field.default
        inner = _classified(api_key, side, field.fields, f"{place}.")
        classified.append(replace(field, kind=kind, fields=inner, default=default))
    return tuple(classified)


def _of_kio(schema: type) -> tuple[Field, ...]:
    return tuple(_field(field) for field in schema_fields(schema))


def _field(field: SchemaField) -> Field:
    is_struct = field.kafka_type is None
    wire_type = field.kafka_type or "struct"
    return Field(
        name=field.name,
        wire_type=_WIRE_TYPES.get(wire_type, wire_type),
        # A duration contains no entity. An error code of FindCoordinator gets its kind by its place.
        kind=EntityKind.NONE if wire_type.startswith("timedelta") else _ENTITY_TYPES.get(field.type.item),
        is_array=field.type.is_array,
        is_nullable=_may_be_null(field, wire_type),
        tag=field.tag,
        fields=_of_kio(field.type.item) if is_struct else (),
        default=_default(field, wire_type),
        is_time=wire_type.startswith(("timedelta", "datetime")),
    )


def _default(field: SchemaField, wire_type: str) -> Default:
    match field.default:
        case None if wire_type == "datetime_i64":
            return -1  # means no time
        case None if wire_type == "uuid":
            return NO_DEFAULT
        case timedelta() as duration:
            return round(duration.total_seconds() * 1000)
        case bool() | int() | float() | str() | None as value:
            return value
        case _:
            return NO_DEFAULT  # the fields of a struct have the defaults; an array is empty by default


def _may_be_null(field: SchemaField, wire_type: str) -> bool:
    # Where kio uses None for a type of fixed size, the encoding has a value. Null records mean no records, even where
    # Kafka does not declare that: a partition with an error has none.
    is_fixed = not field.type.is_array and _WIRE_TYPES.get(wire_type, wire_type) in FIXED_SIZES
    return wire_type == "records" or (field.type.is_nullable and not is_fixed)
