"""Checks of a whole request. Each returns the error of the request, or None."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from mesh.routing.guards.authorization import RequestAuthorization
from mesh.security.rules import Operation, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

RequestCheck: TypeAlias = Callable[[RequestAuthorization, Tree], ErrorCode | None]

_FIELDS: Final = {
    ResourceType.GROUP: ("group_id",),
    ResourceType.TRANSACTIONAL_ID: ("transactional_id", "v3_and_below_transactional_id"),
}
_TRANSACTION: Final = 1
_SHARE: Final = 2
INITIAL_EPOCH: Final = 0
"""The epoch of a Fetch that names all partitions and asks for a session."""


def on_cluster(operation: Operation) -> RequestCheck:
    return lambda authorization, request: authorization.authorize_cluster(operation)


def on_group(operation: Operation) -> RequestCheck:
    return _on(operation, ResourceType.GROUP)


def on_transaction(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    """Checks a request that writes in a transaction. A Produce may have none."""
    return _WRITES_IN_TRANSACTION(authorization, request)


def both(first: RequestCheck, second: RequestCheck) -> RequestCheck:
    """Returns a check that makes both checks, in this order like brokers."""
    return lambda authorization, request: first(authorization, request) or second(authorization, request)


def _on(operation: Operation, resource_type: ResourceType) -> RequestCheck:
    """Returns a check of the resource that a request names. Each type of resource has a field, whose name depends on
    the version; null names nothing."""

    def check(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
        names = (request[key] for key in _FIELDS[resource_type] if request.get(key) is not None)
        return next((code for name in names if (code := authorization.authorize(operation, resource_type, name))), None)

    return check


_WRITES_IN_TRANSACTION: Final = _on(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)


def fetch(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    """Refuses a Fetch that continues a session (KIP-227). A client under rules has no session, and names all partitions
    in each Fetch."""
    if request.get("session_epoch", INITIAL_EPOCH) > INITIAL_EPOCH:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return None


def find_coordinator(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    """Checks the key of a request up to v3; later versions have lists of keys."""
    return coordinator_key(authorization, request, request["key"]) if "key" in request else None


def coordinator_key(authorization: RequestAuthorization, request: Tree, key: str) -> ErrorCode | None:
    """Checks a key of FindCoordinator. The key of a share coordinator is a partition of a group's topic (KIP-932);
    brokers ask for it."""
    key_type = request.get("key_type")
    if key_type == _SHARE:
        return authorization.authorize_cluster(Operation.CLUSTER_ACTION)
    kind = ResourceType.TRANSACTIONAL_ID if key_type == _TRANSACTION else ResourceType.GROUP
    return authorization.authorize(Operation.DESCRIBE, kind, key)


def init_producer_id(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    if request["transactional_id"] is not None:
        return on_transaction(authorization, request)
    if authorization.access.allows_any(Operation.WRITE, ResourceType.TOPIC):
        return None
    return authorization.authorize_cluster(Operation.IDEMPOTENT_WRITE)


def write_markers(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    if authorization.allows_on_cluster(Operation.ALTER):
        return None
    return authorization.authorize_cluster(Operation.CLUSTER_ACTION)


def heartbeat(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    """Checks a heartbeat of the consumer or the share protocol. A regular expression needs DESCRIBE on all topics,
    because the cluster matches it with the permissions of the mesh's principal."""
    code = _reads_group(authorization, request) or _describes(
        authorization, request.get("subscribed_topic_names") or ()
    )
    if code is None and request.get("subscribed_topic_regex"):
        is_allowed = authorization.authorize_all(Operation.DESCRIBE, ResourceType.TOPIC)
        return None if is_allowed else ErrorCode.INVALID_REGULAR_EXPRESSION
    return code


def streams_heartbeat(authorization: RequestAuthorization, request: Tree) -> ErrorCode | None:
    """Checks a heartbeat of the streams protocol. It needs CREATE on the internal topics, because the cluster creates
    them with the permissions of the mesh's principal."""
    topology = request.get("topology")
    if (code := _reads_group(authorization, request)) is not None or topology is None:
        return code
    parts = topology["subtopologies"]
    made = [topic["name"] for part in parts for key in _MADE_FOR_STREAMS for topic in part[key]]
    named = [name for part in parts for key in ("source_topics", "repartition_sink_topics") for name in part[key]]
    if any(part["source_topic_regex"] for part in parts) and not authorization.authorize_all(
        Operation.DESCRIBE, ResourceType.TOPIC
    ):
        return ErrorCode.STREAMS_INVALID_TOPOLOGY
    code = _describes(authorization, dict.fromkeys((*named, *made)))
    return code or next(_creations(authorization, made), None)


_MADE_FOR_STREAMS: Final = ("repartition_source_topics", "state_changelog_topics")
_reads_group: Final = on_group(Operation.READ)


def _describes(authorization: RequestAuthorization, names: Collection[str]) -> ErrorCode | None:
    """Returns the error if the client may not see one of these topics. All that it may not see are noted as
    refusals."""
    codes = [authorization.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names]
    return next(filter(None, codes), None)


def _creations(authorization: RequestAuthorization, names: Collection[str]) -> Iterator[ErrorCode]:
    if not authorization.allows_on_cluster(Operation.CREATE):
        for name in names:
            if (code := authorization.authorize(Operation.CREATE, ResourceType.TOPIC, name)) is not None:
                yield code
