"""A message in the names of somebody else: a client's in those of a leaf, a leaf's in those of clients.

Groups and transactional ids are called the same everywhere, and ids of topics are what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Protocol

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import Tree

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""Types of resources with a configuration (`org.apache.kafka.common.config.ConfigResource.Type`)."""

_MAX_DIGITS: Final = 10
"""Of an int32."""


class Names(Protocol):
    """The other names. None: it has none there, and is left out with the element of an array that it is in."""

    def topic(self, name: str) -> str | None: ...

    def node(self, node: int) -> int: ...

    def cluster_id(self, cluster_id: str) -> str | None: ...

    def resource(self, resource_type: int, name: str) -> str | None: ...


def translated(api_key: ApiKey, version: int, side: Side, message: Tree, names: Names) -> Tree:
    """A new tree; what holds no name is shared with the old one."""
    return _translated(_named_in_message(api_key, version, side), message, names) or {}


_Translate = Callable[[Names, Any], Any]

_VALUES: Final[Mapping[Kind, _Translate]] = MappingProxyType(
    {
        Kind.TOPIC: lambda names, value: names.topic(value),
        Kind.CLUSTER_ID: lambda names, value: names.cluster_id(value),
        Kind.NODE: lambda names, value: names.node(value) if value >= 0 else value,
    }
)


@dataclass(frozen=True, slots=True)
class _Named:
    """A field that holds a name, or structs with names. inner: their fields."""

    name: str
    kind: Kind | None
    is_array: bool
    is_nullable: bool
    inner: tuple[_Named, ...]


@cache
def _named_in_message(api_key: ApiKey, version: int, side: Side) -> tuple[_Named, ...]:
    return _named(layout(api_key, version, side))


def _named(fields: Sequence[Field]) -> tuple[_Named, ...]:
    found = []
    for field in fields:
        inner = _named(field.fields)
        if inner or field.kind in _VALUES or field.kind is Kind.RESOURCE_NAME:
            found.append(_Named(field.kafka_name, field.kind, field.is_array, field.is_nullable, inner))
    return tuple(found)


def _translated(fields: Sequence[_Named], tree: Mapping[str, Any], names: Names) -> Tree | None:
    result = dict(tree)
    for field in fields:
        value = tree.get(field.name)
        if value is None:
            continue
        if field.is_array:
            elements = (_value(field, tree, each, names) for each in value)
            result[field.name] = [each for each in elements if each is not None]
            continue
        other = _value(field, tree, value, names)
        if other is None and not field.is_nullable:
            return None
        result[field.name] = other
    return result


def _value(field: _Named, tree: Mapping[str, Any], value: Any, names: Names) -> Any:
    if field.inner:
        return _translated(field.inner, value, names)
    if field.kind is Kind.RESOURCE_NAME:
        # The first version of ListConfigResources has no types: it lists what metrics clients are asked for.
        return names.resource(tree.get("resource_type", CLIENT_METRICS), value)
    assert field.kind is not None, "it holds a name"
    return _VALUES[field.kind](names, value)


def node_in(name: str) -> int | None:
    """The node whose id is the name of a resource; None if the name is none, as that of all nodes."""
    return int(name) if name.isascii() and name.isdecimal() and len(name) <= _MAX_DIGITS else None
