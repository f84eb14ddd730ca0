"""What a request asks about, and where an answer says something about each: found in the table of fields.

An array of a request and one of the answer belong together if their elements name the same kind of entity: a topic, a
group, a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout

_NAMED: Final = {
    kind: kind
    for kind in (
        Kind.TOPIC,
        Kind.TOPIC_ID,
        Kind.GROUP,
        Kind.TRANSACTIONAL_ID,
        Kind.RESOURCE_TYPE,
        Kind.RESOURCE_NAME,
        Kind.KEY,
    )
} | {Kind.COORDINATOR_KEY: Kind.KEY}
"""Kinds of which an answer has an element for each one that was asked about, and what they are in requests."""
_PARTITION: Final = frozenset({"partition", "partition_index", "partition_id", "index"})
_PARTITIONS: Final = frozenset({"partitions", "partition_indexes"})
_MARKERS: Final = "markers"
"""Of WriteTxnMarkers: the only elements that are told apart by a producer id."""
_NOT_OF_THE_ELEMENT: Final = frozenset({"topic_config_error_code", "acknowledge_error_code"})


@dataclass(frozen=True, slots=True)
class Key:
    """A field that says which entity an element is about.

    answered: its name in the answer. asked: in the request; None: the element is the value.
    kind: None is the number of a partition.
    """

    answered: str
    asked: str | None
    kind: Kind | None

    def value_of(self, element: Any) -> Any:
        """Of an element of a request."""
        return element if self.asked is None else element[self.asked]


@dataclass(frozen=True, slots=True)
class EntityList:
    """An array of a request, and the one of the answer that has an element for each of its elements.

    asked, answered: their names. error: the name of the error code in an element of the answer, if it has one.
    has_errors: an element has an error, or lists with some. inner: lists in an element. field: the one of the request.
    has_names: elements name more than partitions, or nodes; if not, they go where what they are in goes.
    """

    asked: str
    answered: str
    keys: tuple[Key, ...]
    error: str | None
    has_errors: bool
    inner: tuple[EntityList, ...]
    field: Field
    has_names: bool


@cache
def entity_lists(api_key: ApiKey, version: int) -> tuple[EntityList, ...]:
    """Those of a whole message; of one that says nothing about each there are none."""
    asked = layout(api_key, version, Side.REQUEST)
    return tuple(_paired(asked, layout(api_key, version, Side.RESPONSE)))


def error_field(fields: Sequence[Field]) -> str | None:
    """The error code of a struct of an answer."""
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
    return field.kind is Kind.NODE or any(_has_nodes(each) for each in field.fields)


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


def _key(answered: Field, asked: Field | None, kind: Kind | str) -> Key:
    return Key(answered.kafka_name, asked.kafka_name if asked else None, kind if isinstance(kind, Kind) else None)


def _kind(field: Field, array: Field) -> Kind | str | None:
    """What a field of an element says which one it is by, if it does."""
    if field.kind is Kind.PRODUCER and array.name == _MARKERS:
        return Kind.PRODUCER
    if field.name in _PARTITION and field.wire_type == "int32":
        return "partition"
    return _NAMED.get(field.kind) if field.kind else None


def _kind_of_values(array: Field) -> Kind | str | None:
    if array.name in _PARTITIONS and array.wire_type == "int32":
        return "partition"
    return _NAMED.get(array.kind) if array.kind else None
