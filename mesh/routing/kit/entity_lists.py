"""Pairs the arrays of a request with those of its answer, by the table of fields.

An array of a request and one of the answer belong together if their elements name the same kind of entity: a topic, a
group, a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout

_NAMED: Final = {
    kind: kind
    for kind in (
        EntityKind.TOPIC,
        EntityKind.TOPIC_ID,
        EntityKind.GROUP,
        EntityKind.TRANSACTIONAL_ID,
        EntityKind.RESOURCE_TYPE,
        EntityKind.RESOURCE_NAME,
        EntityKind.KEY,
    )
} | {EntityKind.COORDINATOR_KEY: EntityKind.KEY}
"""Kinds of fields by which an answer's element names the requested one, each with the kind of the same field in a
request."""
_PARTITION: Final = frozenset({"partition", "partition_index", "partition_id", "index"})
_PARTITIONS: Final = frozenset({"partitions", "partition_indexes"})
_MARKERS: Final = "markers"
"""The array of WriteTxnMarkers. Only its elements are identified by a producer id."""
_NOT_OF_THE_ELEMENT: Final = frozenset({"topic_config_error_code", "acknowledge_error_code"})


@dataclass(frozen=True, slots=True)
class Key:
    """A field that identifies the entity of an element.

    answer_field: the field's name in the answer. request_field: its name in the request; None if the element is itself
    the value. kind: the kind of its entity; None for a partition number.
    """

    answer_field: str
    request_field: str | None
    kind: EntityKind | None

    def value_of(self, element: Any) -> Any:
        """Returns the value of this field in an element of a request."""
        return element if self.request_field is None else element[self.request_field]


@dataclass(frozen=True, slots=True)
class EntityList:
    """An array of a request, and the array of the answer with one element for each of its elements.

    request_field, answer_field: their names. error: the name of the error code in an answer's element, if it has one.
    has_errors: whether an element, or an element of an inner list, has an error code. inner: the lists in an element.
    field: the array in the request. has_names: whether elements name entities or nodes, not only partitions; if not,
    they belong to the leaf of the element that contains them.
    """

    request_field: str
    answer_field: str
    keys: tuple[Key, ...]
    error: str | None
    has_errors: bool
    inner: tuple[EntityList, ...]
    field: Field
    has_names: bool


@cache
def entity_lists(api_key: ApiKey, version: int) -> tuple[EntityList, ...]:
    """Returns the entity lists of an API; none if its answer has no element for each requested entity."""
    asked = layout(api_key, version, Direction.REQUEST)
    return tuple(_paired(asked, layout(api_key, version, Direction.RESPONSE)))


def error_field(fields: Sequence[Field]) -> str | None:
    """Returns the name of the error code in a struct of an answer, if it has one."""
    for field in fields:
        if field.wire_type == "int16" and field.name.endswith("error_code") and field.name not in _NOT_OF_THE_ELEMENT:
            return field.name
    return None


def _paired(asked: Sequence[Field], answered: Sequence[Field]) -> Iterator[EntityList]:
    for field in answered:
        if not field.is_array or field.wire_type != "struct":
            continue
        for other in asked:
            if other.is_array and (keys := tuple(_keys(other, field))):
                error = error_field(field.fields)
                inner = tuple(_paired(other.fields, field.fields))
                has_errors = error is not None or any(each.has_errors for each in inner)
                has_names = any(key.kind for key in keys) or any(_has_nodes(each) for each in other.fields)
                yield EntityList(other.kafka_name, field.kafka_name, keys, error, has_errors, inner, other, has_names)
                break


def _has_nodes(field: Field) -> bool:
    return field.kind is EntityKind.NODE or any(_has_nodes(each) for each in field.fields)


def _keys(asked: Field, answered: Field) -> Iterator[Key]:
    for field in answered.fields:
        kind = _kind(field, answered)
        if kind is None or field.is_array:
            continue
        if asked.wire_type != "struct" and _kind_of_values(asked) == kind:
            yield _key(field, None, kind)
        for other in asked.fields:
            if _kind(other, asked) == kind:
                yield _key(field, other, kind)
                break


def _key(answered: Field, asked: Field | None, kind: EntityKind | str) -> Key:
    return Key(answered.kafka_name, asked.kafka_name if asked else None, kind if isinstance(kind, EntityKind) else None)


def _kind(field: Field, array: Field) -> EntityKind | str | None:
    """Returns the kind of a field that identifies its element; None for other fields."""
    if field.kind is EntityKind.PRODUCER and array.name == _MARKERS:
        return EntityKind.PRODUCER
    if field.name in _PARTITION and field.wire_type == "int32":
        return "partition"
    return _NAMED.get(field.kind) if field.kind else None


def _kind_of_values(array: Field) -> EntityKind | str | None:
    if array.name in _PARTITIONS and array.wire_type == "int32":
        return "partition"
    return _NAMED.get(array.kind) if array.kind else None
