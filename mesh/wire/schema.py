"""The fields of kio's message classes and of ours in a common form, for the tables of decoder and encoder.

kio omits Kafka's `_ms` in the names of durations, and our messages keep it: kio's `throttle_time` is our
`throttle_time_ms`.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of one field: one value, or an array of `item`. Either may be nullable."""

    item: type
    is_array: bool
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a kio class.

    name: kio's name. message_name: the name in our messages.
    kafka_type: the name of a primitive type, None if the item is a struct.
    tag: the tag of a field that is not encoded if it has its default; None for other fields.
    is_required: whether kio has no default for it.
    default: kio's default, if it has one.
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
    """Returns the fields of a kio class, in the order of the encoding."""
    types = field_types(schema)
    return tuple(_schema_field(field, types[field.name]) for field in fields(schema))


def field_types(dataclass_type: type) -> dict[str, FieldType]:
    """Returns the types of the fields of a message class, ours or kio's, by name."""
    hints = get_type_hints(dataclass_type)
    return {field.name: _field_type(hints[field.name]) for field in fields(dataclass_type)}


def required_fields(message: type) -> frozenset[str]:
    """Returns the fields of our message that have no default."""
    return frozenset(field.name for field in fields(message) if not _has_default(field))


class Pairing:
    """Pairs the fields of kio's classes with ours, and remembers which of ours were found in any version."""

    def __init__(self) -> None:
        self._found: dict[type, set[str]] = {}

    def pair(self, schema: type, message: type) -> list[tuple[SchemaField, FieldType | None]]:
        """Returns every field of one version, with its type in our message, or None if our message lacks it."""
        ours = field_types(message)
        pairs = [(field, ours.get(field.message_name)) for field in schema_fields(schema)]
        self._found.setdefault(message, set()).update(field.message_name for field, our in pairs if our is not None)
        return pairs

    def check(self) -> None:
        """Raises TypeError if a field of ours is in no version: a misspelt name would otherwise be ignored silently."""
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
