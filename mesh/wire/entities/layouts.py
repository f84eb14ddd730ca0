"""The fields of every message that a relay passes on, from kio's classes and the supplement, each with its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId

from mesh.wire.apis import ApiKey
from mesh.wire.entities.classification import kind_of
from mesh.wire.entities.fields import FIXED_SIZES, UNSAID, Default, Field
from mesh.wire.entities.kinds import Kind, Side
from mesh.wire.entities.supplement import NULL_BY_DEFAULT, SUPPLEMENT, Later
from mesh.wire.schema import SchemaField, schema_fields

_ENTITY_TYPES: Final[Mapping[type, Kind]] = MappingProxyType(
    {
        BrokerId: Kind.NODE,
        GroupId: Kind.GROUP,
        ProducerId: Kind.PRODUCER,
        TopicName: Kind.TOPIC,
        TransactionalId: Kind.TRANSACTIONAL_ID,
    }
)
"""kio's types that stand for Kafka's entity types."""

_WIRE_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
)
"""kio's types that Kafka has no name for, and hold no entity."""


def layout(api_key: ApiKey, version: int, side: Side) -> tuple[Field, ...]:
    """The fields in the order of the wire, each with its kind. Raises TypeError for one that nobody has classified."""
    return _classified(api_key, side, _fields(api_key, version, side), "")


def _fields(api_key: ApiKey, version: int, side: Side) -> tuple[Field, ...]:
    match SUPPLEMENT.get((api_key, version, side)):
        case None:
            load = load_request_schema if side is Side.REQUEST else load_response_schema
            return _of_kio(load(api_key, version))
        case Later() as later:
            return later.applied(_fields(api_key, later.of, side))
        case fields:
            return fields


def _classified(api_key: ApiKey, side: Side, fields: tuple[Field, ...], path: str) -> tuple[Field, ...]:
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
        # A duration or an error is known by its type; an error code of FindCoordinator counts by its place.
        kind=Kind.NONE if wire_type.startswith("timedelta") else _ENTITY_TYPES.get(field.type.item),
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
            return -1  # no time
        case None if wire_type == "uuid":
            return UNSAID
        case timedelta() as duration:
            return round(duration.total_seconds() * 1000)
        case bool() | int() | float() | str() | None as value:
            return value
        case _:
            return UNSAID  # what a struct holds by default, its fields say; an array by default is empty


def _may_be_null(field: SchemaField, wire_type: str) -> bool:
    # What kio takes for None in a type of fixed size has a value on the wire. Records that are null are no records,
    # also where Kafka does not say so: a partition that failed has none.
    is_fixed = not field.type.is_array and _WIRE_TYPES.get(wire_type, wire_type) in FIXED_SIZES
    return wire_type == "records" or (field.type.is_nullable and not is_fixed)
