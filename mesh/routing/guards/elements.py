"""Removes the refused elements of a request, and makes the elements of the answer for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from mesh.routing.guards import request_checks
from mesh.routing.guards.authorization import RequestAuthorization
from mesh.routing.kit import translation
from mesh.routing.kit.entity_lists import EntityList
from mesh.routing.kit.errors import ErrorOfApi
from mesh.security.rules import Operation, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

ElementCheck: TypeAlias = Callable[[RequestAuthorization, Tree, EntityList, Any], ErrorCode | None]
"""Returns the error of one element of a request, or None."""

_RESOURCES: Final[Mapping[EntityKind, ResourceType]] = MappingProxyType(
    {
        EntityKind.TOPIC: ResourceType.TOPIC,
        EntityKind.GROUP: ResourceType.GROUP,
        EntityKind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    }
)


def narrowed(
    authorization: RequestAuthorization,
    api_key: ApiKey,
    request: Tree,
    entities: EntityList,
    elements: Sequence[Any],
    each: Sequence[ElementCheck],
) -> tuple[list[Any], list[Tree]]:
    """Returns the allowed elements of an array, and the answer's elements for the refused ones. each: the check of this
    array's elements, then the checks of the inner arrays'."""
    kept: list[Any] = []
    refused: list[Tree] = []
    for element in elements:
        code = each[0](authorization, request, entities, element)
        if code is not None:
            refused.append(_refused(ErrorOfApi(api_key, code, None), entities, element))
            continue
        rest = element
        for inner in entities.inner if len(each) > 1 else ():
            if inner.has_names and element[inner.request_field]:
                left, answered = narrowed(
                    authorization, api_key, request, inner, element[inner.request_field], each[1:]
                )
                rest = {**rest, inner.request_field: left}
                if answered:
                    names = {key.answer_field: key.value_of(element) for key in entities.keys}
                    refused.append({**names, inner.answer_field: answered})
        kept.append(rest)
    return kept, refused


def _refused(failure: ErrorOfApi, entities: EntityList, element: Any) -> Tree:
    """Returns the answer's element for a refused one. If it has an error of its own, its inner arrays stay empty."""
    if entities.error is None:
        return failure.element(entities, element)
    return {key.answer_field: key.value_of(element) for key in entities.keys} | failure.error_fields(entities.error)


def topic_ids_in(request: Mapping[str, Any], lists: Sequence[EntityList]) -> Iterator[UUID]:
    """Yields the topic ids in a request. lists: the entity lists of its API and version."""
    for entities in lists:
        by_id = [key for key in entities.keys if key.kind is EntityKind.TOPIC_ID]
        for element in request[entities.request_field] or () if by_id or entities.inner else ():
            yield from (key.value_of(element) for key in by_id)
            if isinstance(element, Mapping):
                yield from topic_ids_in(element, [each for each in entities.inner if each.has_names])


def named(operation: Operation) -> ElementCheck:
    """Returns a check of the entity that an element names: a topic, by its name or id, a group, or a transaction."""

    def each(
        authorization: RequestAuthorization, request: Tree, entities: EntityList, element: Any
    ) -> ErrorCode | None:
        return _of_named(authorization, operation, entities, element)

    return each


def _of_named(
    authorization: RequestAuthorization, operation: Operation, entities: EntityList, element: Any
) -> ErrorCode | None:
    for key in entities.keys:
        value = key.value_of(element)
        if key.kind is EntityKind.TOPIC_ID and value != ZERO_ID:
            return authorization.authorize_topic_id(operation, value)
        if key.kind is not None and key.kind in _RESOURCES and value is not None:
            return authorization.authorize(operation, _RESOURCES[key.kind], value)
    return ErrorCode.INVALID_REQUEST


def unless_in_cluster(of_all: Operation, operation: Operation) -> ElementCheck:
    """Returns a check of elements that does without their own permissions where the whole cluster is permitted. of_all:
    the operation on the cluster. operation: the operation on the entity that an element names."""

    def each(
        authorization: RequestAuthorization, request: Tree, entities: EntityList, element: Any
    ) -> ErrorCode | None:
        return (
            None if authorization.allows_on_cluster(of_all) else _of_named(authorization, operation, entities, element)
        )

    return each


def fetched(authorization: RequestAuthorization, request: Tree, entities: EntityList, element: Any) -> ErrorCode | None:
    """Checks a topic of a Fetch. A follower needs CLUSTER_ACTION, a consumer READ."""
    follower = request.get("replica_state", request).get("replica_id", -1)
    if follower < 0:
        return _of_named(authorization, Operation.READ, entities, element)
    code = authorization.authorize_cluster(Operation.CLUSTER_ACTION)
    return None if code is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def resource(operation: Operation) -> ElementCheck:
    """Returns a check of the resource whose configuration an element is about."""

    def each(
        authorization: RequestAuthorization, request: Tree, entities: EntityList, element: Any
    ) -> ErrorCode | None:
        match element["resource_type"]:
            case translation.TOPIC:
                return authorization.authorize(operation, ResourceType.TOPIC, element["resource_name"])
            case translation.GROUP:
                return authorization.authorize(operation, ResourceType.GROUP, element["resource_name"])
            case _:
                return authorization.authorize_cluster(operation)

    return each


def coordinator_key(
    authorization: RequestAuthorization, request: Tree, entities: EntityList, element: Any
) -> ErrorCode | None:
    return request_checks.coordinator_key(authorization, request, element)
