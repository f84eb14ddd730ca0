"""Divides a request among the brokers of a cluster: by the leaders of its partitions, or by the coordinators of its
groups and transactional ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.one_node.leaders import Topic
from mesh.wire.apis import ApiKey
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.trees import ZERO_ID, Tree

Place = TypeVar("Place")
LeaderOf: TypeAlias = Callable[[Topic, int], Place]


def by_leaders(api_key: ApiKey, version: int, request: Tree, leader_of: LeaderOf[Place]) -> Mapping[Place, Tree]:
    """Returns the request for each broker, divided by leaders; none for a request without partitions. leader_of: the
    leader of a partition, by its topic's name or id in the request and its number."""
    (entities,) = entity_lists(api_key, version)
    kept = _by_leaders(entities, request[entities.request_field] or (), None, leader_of)
    return {place: {**request, entities.request_field: elements} for place, elements in kept.items()}


def partitions_of(api_key: ApiKey, version: int, request: Tree) -> Iterator[tuple[Topic, int]]:
    """Yields the partitions in a request that goes to leaders."""
    (entities,) = entity_lists(api_key, version)
    return _partitions(entities, request[entities.request_field] or (), None)


def keys_of(api_key: ApiKey, version: int, request: Tree) -> Sequence[str]:
    """Returns the groups or transactional ids whose coordinators a request needs; none if any broker can answer it."""
    if (entities := _named(api_key, version)) is not None:
        return [str(entities.keys[0].value_of(each)) for each in request[entities.request_field] or ()]
    name = _name(api_key, request)
    return () if name is None else (name,)


def by_coordinators(
    api_key: ApiKey, version: int, request: Tree, coordinator_of: Callable[[str], Place]
) -> Mapping[Place, Tree]:
    """Returns the request for each broker. request: names at least one group or transactional id."""
    entities = _named(api_key, version)
    if entities is None:
        name = _name(api_key, request)
        assert name is not None, "it was looked at"
        return {coordinator_of(name): request}
    kept: dict[Place, list[Any]] = {}
    for element in request[entities.request_field]:
        kept.setdefault(coordinator_of(str(entities.keys[0].value_of(element))), []).append(element)
    return {place: {**request, entities.request_field: elements} for place, elements in kept.items()}


def _by_leaders(
    entities: EntityList, elements: Sequence[Any], topic: Topic | None, leader_of: LeaderOf[Place]
) -> dict[Place, list[Any]]:
    kept: dict[Place, list[Any]] = {}
    for element in elements:
        if not entities.inner:
            assert topic is not None, "partitions stand in topics"
            kept.setdefault(leader_of(topic, entities.keys[0].value_of(element)), []).append(element)
            continue
        (inner,) = entities.inner
        within = _by_leaders(inner, element[inner.request_field] or (), _topic(entities, element) or topic, leader_of)
        for place, each in within.items():
            kept.setdefault(place, []).append({**element, inner.request_field: each})
    return kept


def _partitions(entities: EntityList, elements: Sequence[Any], topic: Topic | None) -> Iterator[tuple[Topic, int]]:
    for element in elements:
        if entities.inner:
            (inner,) = entities.inner
            yield from _partitions(inner, element[inner.request_field] or (), _topic(entities, element) or topic)
        else:
            assert topic is not None, "partitions stand in topics"
            yield topic, entities.keys[0].value_of(element)


def _topic(entities: EntityList, element: Any) -> Topic | None:
    for key in entities.keys:
        value = key.value_of(element)
        if key.kind in (EntityKind.TOPIC, EntityKind.TOPIC_ID) and value is not None and value != ZERO_ID:
            return value  # type: ignore[no-any-return]
    return None


def _named(api_key: ApiKey, version: int) -> EntityList | None:
    """Returns the list of groups or transactional ids in a request, if it has one."""
    for each in entity_lists(api_key, version):
        if each.keys[0].kind in (EntityKind.GROUP, EntityKind.TRANSACTIONAL_ID):
            return each
    return None


def _name(api_key: ApiKey, request: Tree) -> str | None:
    if api_key is ApiKey.TXN_OFFSET_COMMIT:  # it names a transactional id, too, but goes to the group's coordinator
        return str(request["group_id"])
    for field in ("transactional_id", "v3_and_below_transactional_id", "group_id"):
        if (name := request.get(field)) is not None:
            return str(name)
    return None
