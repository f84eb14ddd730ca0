"""What kio's message classes and ours say about their fields, in one form, for the tables of decoder and encoder.

kio leaves Kafka's `_ms` off the names of durations; ours keep it, so `throttle_time` there is `throttle_time_ms` here.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of one field: of one value, or of an array of `item`; either may be null."""

    item: type
    is_array: bool
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a kio class.

    name: kio's; message_name: the one it has in our messages.
    kafka_type: the name of a primitive type, None if the item is a struct.
    tag: its number, of a field that is left out on the wire where it has its default; None for any other.
    is_required: kio has no default for it.
    default: kio's, if it has one.
    """

    name: str
    message_name: str
    kafka_type: str | None
    type: FieldType
    tag: int | None
    is_required: bool
    default: object = MISSING

    @property
    def is_tagged(self) -> bool:
        return self.tag is not None


def schema_fields(schema: type) -> tuple[SchemaField, ...]:
    """The fields of a kio class, in the order they have on the wire."""
    types = field_types(schema)
    return tuple(_schema_field(field, types[field.name]) for field in fields(schema))


def field_types(dataclass_type: type) -> dict[str, FieldType]:
    """The fields of a message class, ours or kio's, by name."""
    hints = get_type_hints(dataclass_type)
    return {field.name: _field_type(hints[field.name]) for field in fields(dataclass_type)}


def required_fields(message: type) -> frozenset[str]:
    """Those of our fields that have no default."""
    return frozenset(field.name for field in fields(message) if not _has_default(field))


class Pairing:
    """Brings the fields of kio's classes and of ours together, and remembers which of ours were found at all."""

    def __init__(self) -> None:
        self._found: dict[type, set[str]] = {}

    def pair(self, schema: type, message: type) -> list[tuple[SchemaField, FieldType | None]]:
        """Every field of one version on the wire, with the type it has in our message, or None if we lack it."""
        ours = field_types(message)
        pairs = [(field, ours.get(field.message_name)) for field in schema_fields(schema)]
        self._found.setdefault(message, set()).update(field.message_name for field, our in pairs if our is not None)
        return pairs

    def check(self) -> None:
        """Raises TypeError if one of our fields is in no version: a misspelt name would be left out in silence."""
        for message, found in self._found.items():
            if unknown := field_types(message).keys() - found:
                raise TypeError(f"{message.__name__} has fields that are in no version: {sorted(unknown)}")


def _schema_field(field: Field[Any], field_type: FieldType) -> SchemaField:
    kafka_type = field.metadata.get("kafka_type")
    is_duration = kafka_type is not None and kafka_type.startswith("timedelta")
    return SchemaField(
        name=field.name,
        message_name=f"{field.name}_ms" if is_duration else field.name,
        kafka_type=kafka_type,
        type=field_type,
        tag=field.metadata.get("tag"),
        is_required=not _has_default(field),
        default=field.default,
    )


def _field_type(annotation: Any) -> FieldType:
    is_nullable = isinstance(annotation, UnionType)
    if is_nullable:
        (annotation,) = (argument for argument in get_args(annotation) if argument is not NoneType)
    if get_origin(annotation) is tuple:
        return FieldType(get_args(annotation)[0], is_array=True, is_nullable=is_nullable)
    return FieldType(annotation, is_array=False, is_nullable=is_nullable)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
