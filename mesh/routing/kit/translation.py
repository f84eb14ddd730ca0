"""Translates the names in a message from clients' to a leaf's, or back.

Groups and transactional ids have the same names everywhere. Topic ids and partition numbers stay the same, except where
a leaf has parts of concatenated topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Protocol
from uuid import UUID

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import ZERO_ID, Tree

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""Types of resources with a configuration (`org.apache.kafka.common.config.ConfigResource.Type`)."""

_MAX_DIGITS: Final = 10
"""The most digits of an int32."""


class NameTranslator(Protocol):
    """The translation of names and ids. None as a result: the name has no counterpart, and its array element is left
    out.

    has_parts: whether topic ids, partitions and epochs are translated too.
    """

    @property
    def has_parts(self) -> bool: ...

    def topic(self, name: str) -> str | None: ...

    def topic_begins(self) -> None:
        """Notes that another topic begins; called only if `has_parts`."""

    def topic_id(self, topic_id: UUID) -> UUID | None: ...

    def partition(self, partition: int) -> int | None:
        """Translates a partition number of the topic that began. The topic was given by its name, its id, or both."""

    def leader_epoch(self, epoch: int) -> int:
        """Translates the leader epoch of a partition of that topic."""

    def record_epoch(self, epoch: int) -> int:
        """Translates the epoch of a record in a partition of that topic."""

    def end_epoch(self, epoch: int) -> int:
        """Translates the epoch of the end offset that follows."""

    def end_offset(self, offset: int) -> int: ...

    def node(self, node: int) -> int: ...

    def cluster_id(self, cluster_id: str) -> str | None: ...

    def resource(self, resource_type: int, name: str) -> str | None: ...


def translated(api_key: ApiKey, version: int, side: Direction, message: Tree, names: NameTranslator) -> Tree:
    """Returns the message with translated names. Parts without names are shared with the original."""
    return _translated(_named_in_message(api_key, version, side, names.has_parts), message, names) or {}


_Translate = Callable[[NameTranslator, Any], Any]

_VALUES: Final[Mapping[EntityKind, _Translate]] = MappingProxyType(
    {
        EntityKind.TOPIC: lambda names, value: names.topic(value),
        EntityKind.CLUSTER_ID: lambda names, value: names.cluster_id(value),
        EntityKind.NODE: lambda names, value: names.node(value) if value >= 0 else value,
    }
)
_VALUES_WITH_PARTS: Final[Mapping[EntityKind, _Translate]] = MappingProxyType(
    {
        **_VALUES,
        EntityKind.TOPIC_ID: lambda names, value: names.topic_id(value) if value != ZERO_ID else value,
        EntityKind.PARTITION: lambda names, value: names.partition(value) if value >= 0 else value,
        EntityKind.LEADER_EPOCH: lambda names, value: names.leader_epoch(value) if value >= 0 else value,
        EntityKind.RECORD_EPOCH: lambda names, value: names.record_epoch(value) if value >= 0 else value,
        EntityKind.END_EPOCH: lambda names, value: names.end_epoch(value),
        EntityKind.END_OFFSET: lambda names, value: names.end_offset(value),
    }
)


@dataclass(frozen=True, slots=True)
class _Named:
    """A field with a name or id, or with structs that contain some. inner: the fields of these structs. is_topic:
    whether each struct is about one topic, and may contain its partitions."""

    name: str
    kind: EntityKind | None
    is_array: bool
    is_nullable: bool
    inner: tuple[_Named, ...]
    is_topic: bool = False


@cache
def _named_in_message(api_key: ApiKey, version: int, side: Direction, has_parts: bool) -> tuple[_Named, ...]:
    return _named(layout(api_key, version, side), _VALUES_WITH_PARTS if has_parts else _VALUES)


def _named(fields: Sequence[Field], kinds: Mapping[EntityKind, _Translate]) -> tuple[_Named, ...]:
    found = []
    for field in fields:
        inner = _named(field.fields, kinds)
        if inner or field.kind in kinds or field.kind is EntityKind.RESOURCE_NAME:
            is_topic = kinds is _VALUES_WITH_PARTS and any(
                each.kind in (EntityKind.TOPIC, EntityKind.TOPIC_ID) and not each.is_array for each in field.fields
            )
            found.append(_Named(field.kafka_name, field.kind, field.is_array, field.is_nullable, inner, is_topic))
    return tuple(found)


def _translated(fields: Sequence[_Named], tree: Mapping[str, Any], names: NameTranslator) -> Tree | None:
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


def _value(field: _Named, tree: Mapping[str, Any], value: Any, names: NameTranslator) -> Any:
    if field.inner:
        if field.is_topic:
            names.topic_begins()
        return _translated(field.inner, value, names)
    if field.kind is EntityKind.RESOURCE_NAME:
        # The first version of ListConfigResources has no types: it lists only client metrics resources.
        return names.resource(tree.get("resource_type", CLIENT_METRICS), value)
    assert field.kind is not None, "it holds a name"
    return _VALUES_WITH_PARTS[field.kind](names, value)


def node_in(name: str) -> int | None:
    """Returns the node id that a resource name stands for; None for other names, such as the one for all brokers."""
    return int(name) if name.isascii() and name.isdecimal() and len(name) <= _MAX_DIGITS else None
