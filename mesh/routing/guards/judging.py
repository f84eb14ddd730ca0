"""Judges one request: finds the parts that the rules allow its client."""

from __future__ import annotations

from functools import partial
from typing import Final

from mesh.routing.guards.authorization import Judgement, RequestAuthorization, TopicIdNames
from mesh.routing.guards.elements import narrowed
from mesh.routing.guards.table import GUARDS, Guard
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.errors import ErrorOfApi, error_answer, top_level_error
from mesh.security.rules import Access
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_NO_SESSION: Final = -1
"""The epoch of a Fetch without a session (KIP-227)."""
_GO_ON_EMPTY: Final = frozenset(
    {
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""APIs whose requests go to the cluster even with no element left: they keep a session alive, or the answer may have an
error of the group."""
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
"""APIs that report a refusal of the whole request in one error code, in versions whose answer has one."""


def judge(api_key: ApiKey, version: int, request: Tree, access: Access, topics: TopicIdNames) -> Judgement | None:
    """Judges a request by the rules. Returns None if all of it is allowed, and its answer is the same for every client.
    request: as returned by `read_tree`, in clients' names; of any API but Metadata."""
    guard, authorization = GUARDS[api_key], RequestAuthorization(access, topics)
    code = guard.request_check(authorization, request) if guard.request_check is not None else None
    if code is not None:
        return Judgement(None, _refused(api_key, version, request, code), None, tuple(authorization.refusals))
    has_session = _has_session(api_key, request)
    request, left, refused = _narrowed(authorization, api_key, version, request, guard)
    answer = guard.answer if guard.answer is not None and _is_changed(api_key, request) else None
    if not refused and answer is None and not has_session:
        return None
    if answer is None:
        return Judgement(left, refused, None, tuple(authorization.refusals))
    later = RequestAuthorization(access, topics)
    return Judgement(left, refused, partial(answer, later, request), tuple(authorization.refusals), later.refusals)


def _narrowed(
    authorization: RequestAuthorization, api_key: ApiKey, version: int, request: Tree, guard: Guard
) -> tuple[Tree, Tree | None, Tree | None]:
    """Returns the request without its Fetch session, its allowed part or None, and an answer to the refused part or
    None."""
    lists = entity_lists(api_key, version) if guard.element_checks else ()
    if _has_session(api_key, request):
        request = {**request, "session_id": 0, "session_epoch": _NO_SESSION}
    if not lists or request[lists[0].request_field] is None:
        return request, request, None
    entities = lists[0]
    kept, refused = narrowed(
        authorization, api_key, request, entities, request[entities.request_field], guard.element_checks
    )
    if not refused:
        return request, request, None
    if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:  # all partitions or none, like a broker
        refused += _not_attempted(api_key, entities, kept)
        kept = []
    answered: Tree = {entities.answer_field: refused}
    if not kept and api_key not in _GO_ON_EMPTY:
        return request, None, answered
    return request, {**request, entities.request_field: kept}, answered


def _not_attempted(api_key: ApiKey, entities: EntityList, kept: list[Tree]) -> list[Tree]:
    failure = ErrorOfApi(api_key, ErrorCode.OPERATION_NOT_ATTEMPTED, None)
    return [failure.element(entities, each) for each in kept]


def _has_session(api_key: ApiKey, request: Tree) -> bool:
    """Returns whether a Fetch begins a session, or ends the one that it names: perhaps that of another client."""
    if api_key is not ApiKey.FETCH:
        return False
    return bool(request.get("session_epoch", _NO_SESSION) != _NO_SESSION or request.get("session_id", 0))


def _is_changed(api_key: ApiKey, request: Tree) -> bool:
    """Returns True if the answer may have to be changed. The answer to an OffsetFetch that names its topics does
    not."""
    if api_key is not ApiKey.OFFSET_FETCH:
        return True
    return any(group["topics"] is None for group in request.get("groups", [request]))


def _refused(api_key: ApiKey, version: int, request: Tree, code: ErrorCode) -> Tree:
    if api_key not in _REFUSED_ABOVE:
        return error_answer(api_key, version, request, code)
    if (error := top_level_error(api_key, version)) is not None:
        return {error: int(code)}
    return {} if api_key is ApiKey.DESCRIBE_LOG_DIRS else error_answer(api_key, version, request, code)
