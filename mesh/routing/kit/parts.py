"""Divides a request about a concatenated topic among its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from mesh.routing.concatenated import Concatenated, Part
from mesh.routing.kit import refusals
from mesh.routing.kit.entity_lists import EntityList
from mesh.routing.kit.refusals import ElementRefusal
from mesh.routing.kit.translation import TOPIC
from mesh.routing.kit.union_view import UnionView
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.trees import ZERO_ID, Tree

Placed: TypeAlias = tuple[LeafNumber | ElementRefusal, Any]
"""An element of a request, after its leaf or the reason why no leaf gets it."""

_OF_FIRST: Final = frozenset({ApiKey.DESCRIBE_CONFIGS})
"""APIs for which the first part answers for the whole topic: the union gives all parts the same configuration."""


def concatenated_in(entities: EntityList, element: Any, union: UnionView) -> Concatenated | None:
    """Returns the concatenated topic that an element of a request is about, if any."""
    for key in entities.keys:
        value = key.value_of(element)
        match key.kind:
            case EntityKind.TOPIC if value is not None:
                return union.concatenated.named(value)
            case EntityKind.TOPIC_ID if value != ZERO_ID:
                return union.concatenated.with_id(value)
            case EntityKind.RESOURCE_NAME if element["resource_type"] == TOPIC:
                return union.concatenated.named(value)
    return None


def placed(
    api_key: ApiKey, version: int, entities: EntityList, element: Any, topic: Concatenated, home: LeafNumber | None
) -> Iterator[Placed]:
    """Divides an element about a concatenated topic. home: the only leaf that may be asked; None for any."""
    partitions = partitions_in(entities)
    if partitions is None:
        yield from _of_whole(api_key, element, topic)
        return
    asked = element[partitions.request_field]
    if not asked:
        leaf = topic.parts[0].leaf if home is None else home
        yield leaf if topic.part_at_leaf(leaf) else refusals.topic_elsewhere(api_key, version, topic.name), element
        return
    for part, of_part in by_part(topic, partitions, asked).items():
        piece = {**element, partitions.request_field: of_part}
        if part is None:
            yield refusals.no_such_topic(api_key, topic.name), piece
        elif home is not None and part.leaf != home:
            yield refusals.topic_elsewhere(api_key, version, topic.name), piece
        else:
            yield part.leaf, piece


def is_by_id(entities: EntityList, element: Any) -> bool:
    """Returns True if an element of a request names its topic by id."""
    return any(key.kind is EntityKind.TOPIC_ID and key.value_of(element) != ZERO_ID for key in entities.keys)


def partitions_in(entities: EntityList) -> EntityList | None:
    """Returns the list of partitions in an element, if it has one."""
    return next((inner for inner in entities.inner if inner.keys[0].kind is None), None)


def by_part(topic: Concatenated, partitions: EntityList, asked: list[Any]) -> dict[Part | None, list[Any]]:
    """Groups partitions of a request by their part; None for partitions that do not exist."""
    of_parts: dict[Part | None, list[Any]] = {}
    for each in asked:
        of_parts.setdefault(topic.part_with_partition(partitions.keys[0].value_of(each)), []).append(each)
    return of_parts


def _of_whole(api_key: ApiKey, element: Any, topic: Concatenated) -> Iterator[Placed]:
    """Divides an element about a topic as a whole."""
    refusal = _refusal(api_key, element, topic)
    if refusal is not None:
        yield refusal, element
        return
    for part in topic.parts[:1] if api_key in _OF_FIRST else topic.parts:
        yield part.leaf, {**element, "num_partitions": part.width} if api_key is ApiKey.CREATE_TOPICS else element


def _refusal(api_key: ApiKey, element: Tree, topic: Concatenated) -> ElementRefusal | None:
    match api_key:
        case ApiKey.CREATE_PARTITIONS:
            return refusals.declared_widths(topic.name)
        case ApiKey.CREATE_TOPICS if element["assignments"]:
            return refusals.replicas_of_several(topic.name)
        case ApiKey.CREATE_TOPICS if element["num_partitions"] not in (-1, topic.width):
            return refusals.other_width(topic.name, topic.width)
        case _:
            return None
