"""Requests without the elements that are refused, and the elements of an answer to those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from mesh.routing.guards import whole
from mesh.routing.guards.asking import Asking
from mesh.routing.kit import translation
from mesh.routing.kit.entity_lists import EntityList
from mesh.routing.kit.errors import Failure
from mesh.security.rules import Operation, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.entities.kinds import Kind
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

Each: TypeAlias = Callable[[Asking, Tree, EntityList, Any], ErrorCode | None]
"""The error of one element of a request."""

_RESOURCES: Final[Mapping[Kind, ResourceType]] = MappingProxyType(
    {
        Kind.TOPIC: ResourceType.TOPIC,
        Kind.GROUP: ResourceType.GROUP,
        Kind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    }
)


def narrowed(
    asking: Asking, api_key: ApiKey, request: Tree, entities: EntityList, elements: Sequence[Any], each: Sequence[Each]
) -> tuple[list[Any], list[Tree]]:
    """What is left of an array, and the elements of an answer to the rest. each: of this array, and of those within."""
    kept: list[Any] = []
    refused: list[Tree] = []
    for element in elements:
        code = each[0](asking, request, entities, element)
        if code is not None:
            refused.append(_refused(Failure(api_key, code, None), entities, element))
            continue
        rest = element
        for inner in entities.inner if len(each) > 1 else ():
            if inner.has_names and element[inner.asked]:
                left, answered = narrowed(asking, api_key, request, inner, element[inner.asked], each[1:])
                rest = {**rest, inner.asked: left}
                if answered:
                    names = {key.answered: key.value_of(element) for key in entities.keys}
                    refused.append({**names, inner.answered: answered})
        kept.append(rest)
    return kept, refused


def _refused(failure: Failure, entities: EntityList, element: Any) -> Tree:
    """Of what has an error of its own nothing is said within."""
    if entities.error is None:
        return failure.element(entities, element)
    return {key.answered: key.value_of(element) for key in entities.keys} | failure.said_in(entities.error)


def topic_ids_in(request: Mapping[str, Any], lists: Sequence[EntityList]) -> Iterator[UUID]:
    """By which its elements name topics. lists: of its API and version."""
    for entities in lists:
        by_id = [key for key in entities.keys if key.kind is Kind.TOPIC_ID]
        for element in request[entities.asked] or () if by_id or entities.inner else ():
            yield from (key.value_of(element) for key in by_id)
            if isinstance(element, Mapping):
                yield from topic_ids_in(element, [each for each in entities.inner if each.has_names])


def named(operation: Operation) -> Each:
    """What an element names: a topic, by its name or its id, a group, or a transaction."""

    def each(asking: Asking, request: Tree, entities: EntityList, element: Any) -> ErrorCode | None:
        return _of_named(asking, operation, entities, element)

    return each


def _of_named(asking: Asking, operation: Operation, entities: EntityList, element: Any) -> ErrorCode | None:
    for key in entities.keys:
        value = key.value_of(element)
        if key.kind is Kind.TOPIC_ID and value != ZERO_ID:
            return asking.of_topic_id(operation, value)
        if key.kind is not None and key.kind in _RESOURCES and value is not None:
            return asking.refusal(operation, _RESOURCES[key.kind], value)
    return ErrorCode.INVALID_REQUEST


def unless_in_cluster(of_all: Operation, operation: Operation) -> Each:
    """Where what is allowed in the whole cluster need not be allowed of each."""

    def each(asking: Asking, request: Tree, entities: EntityList, element: Any) -> ErrorCode | None:
        return None if asking.may_in_cluster(of_all) else _of_named(asking, operation, entities, element)

    return each


def fetched(asking: Asking, request: Tree, entities: EntityList, element: Any) -> ErrorCode | None:
    """A follower needs another operation than a consumer."""
    follower = request.get("replica_state", request).get("replica_id", -1)
    if follower < 0:
        return _of_named(asking, Operation.READ, entities, element)
    code = asking.of_cluster(Operation.CLUSTER_ACTION)
    return None if code is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def resource(operation: Operation) -> Each:
    """What has a configuration."""

    def each(asking: Asking, request: Tree, entities: EntityList, element: Any) -> ErrorCode | None:
        match element["resource_type"]:
            case translation.TOPIC:
                return asking.refusal(operation, ResourceType.TOPIC, element["resource_name"])
            case translation.GROUP:
                return asking.refusal(operation, ResourceType.GROUP, element["resource_name"])
            case _:
                return asking.of_cluster(operation)

    return each


def coordinator_key(asking: Asking, request: Tree, entities: EntityList, element: Any) -> ErrorCode | None:
    return whole.coordinator_key(asking, request, element)
