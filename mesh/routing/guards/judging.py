"""What a client may have of one request."""

from __future__ import annotations

from typing import Final

from mesh.routing.guards.asking import Asking, Judgement, TopicNames
from mesh.routing.guards.elements import narrowed
from mesh.routing.guards.table import GUARDS, Guard
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.errors import Failure, error_answer, top_level_error
from mesh.security.rules import Access
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_NO_SESSION: Final = -1
"""The epoch of a Fetch that wants none (KIP-227)."""
_GO_ON_EMPTY: Final = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.OFFSET_DELETE})
"""Requests that are asked also if nothing is left of them: sessions go on by them, or the group may have an error."""
_REFUSED_ABOVE: Final = frozenset(
    {
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_LOG_DIRS,
    }
)
"""Requests whose error as a whole is said above all, and of nothing within, in versions that have it there."""


def judge(api_key: ApiKey, version: int, request: Tree, access: Access, topics: TopicNames) -> Judgement | None:
    """None: all of it is allowed, and the answer is everybody's. request: as `read_tree` has it, in the names of
    clients; of any API but Metadata."""
    guard, asking = GUARDS[api_key], Asking(access, topics)
    code = guard.whole(asking, request) if guard.whole is not None else None
    if code is not None:
        return Judgement(None, _refused(api_key, version, request, code), None, tuple(asking.refusals))
    request, left, refused = _narrowed(asking, api_key, version, request, guard)
    answer = guard.answer if guard.answer is not None and _is_changed(api_key, request) else None
    if not refused and answer is None and not _has_session(api_key, request):
        return None
    complete = (lambda told: answer(asking, request, told)) if answer is not None else None
    return Judgement(left, refused, complete, tuple(asking.refusals))


def _narrowed(
    asking: Asking, api_key: ApiKey, version: int, request: Tree, guard: Guard
) -> tuple[Tree, Tree | None, Tree | None]:
    """The request, what is left of it, and an answer to the rest."""
    lists = entity_lists(api_key, version) if guard.each else ()
    if _has_session(api_key, request):
        request = {**request, "session_id": 0, "session_epoch": _NO_SESSION}
    if not lists or request[lists[0].asked] is None:
        return request, request, None
    entities = lists[0]
    kept, refused = narrowed(asking, api_key, request, entities, request[entities.asked], guard.each)
    if not refused:
        return request, request, None
    if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:  # all of them or none
        refused += _not_attempted(api_key, entities, kept)
        kept = []
    answered: Tree = {entities.answered: refused}
    if not kept and api_key not in _GO_ON_EMPTY:
        return request, None, answered
    return request, {**request, entities.asked: kept}, answered


def _not_attempted(api_key: ApiKey, entities: EntityList, kept: list[Tree]) -> list[Tree]:
    failure = Failure(api_key, ErrorCode.OPERATION_NOT_ATTEMPTED, None)
    return [failure.element(entities, each) for each in kept]


def _has_session(api_key: ApiKey, request: Tree) -> bool:
    return api_key is ApiKey.FETCH and request.get("session_epoch", _NO_SESSION) != _NO_SESSION


def _is_changed(api_key: ApiKey, request: Tree) -> bool:
    """Whether the answer may have to be changed. A member that asks for its offsets names its topics."""
    if api_key is not ApiKey.OFFSET_FETCH:
        return True
    return any(group["topics"] is None for group in request.get("groups", [request]))


def _refused(api_key: ApiKey, version: int, request: Tree, code: ErrorCode) -> Tree:
    if api_key not in _REFUSED_ABOVE:
        return error_answer(api_key, version, request, code)
    if (error := top_level_error(api_key, version)) is not None:
        return {error: int(code)}
    return {} if api_key is ApiKey.DESCRIBE_LOG_DIRS else error_answer(api_key, version, request, code)
