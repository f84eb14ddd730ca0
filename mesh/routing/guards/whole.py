"""What a request needs as a whole: the error of all of it, or None."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from mesh.routing.guards.asking import Asking
from mesh.security.rules import Operation, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

Whole: TypeAlias = Callable[[Asking, Tree], ErrorCode | None]

_FIELDS: Final = {
    ResourceType.GROUP: ("group_id",),
    ResourceType.TRANSACTIONAL_ID: ("transactional_id", "v3_and_below_transactional_id"),
}
_TRANSACTION: Final = 1
"""The type of a key of FindCoordinator."""
INITIAL_EPOCH: Final = 0
"""Of a Fetch that names all that it wants, and asks for a session."""


def on_cluster(operation: Operation) -> Whole:
    return lambda asking, request: asking.of_cluster(operation)


def on_group(operation: Operation) -> Whole:
    return _on(operation, ResourceType.GROUP)


def on_transaction(asking: Asking, request: Tree) -> ErrorCode | None:
    """What writes in a transaction; a Produce may be in none."""
    return _WRITES_IN_TRANSACTION(asking, request)


def both(first: Whole, second: Whole) -> Whole:
    """In this order, as brokers ask."""
    return lambda asking, request: first(asking, request) or second(asking, request)


def _on(operation: Operation, resource_type: ResourceType) -> Whole:
    """What the request names in the one of these fields that its version has; null names nothing."""

    def whole(asking: Asking, request: Tree) -> ErrorCode | None:
        names = (request[key] for key in _FIELDS[resource_type] if request.get(key) is not None)
        return next((code for name in names if (code := asking.refusal(operation, resource_type, name))), None)

    return whole


_WRITES_IN_TRANSACTION: Final = _on(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)


def fetch(asking: Asking, request: Tree) -> ErrorCode | None:
    """A client under rules has no session (KIP-227): each of its requests names all that it wants."""
    if request.get("session_epoch", INITIAL_EPOCH) > INITIAL_EPOCH:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return None


def find_coordinator(asking: Asking, request: Tree) -> ErrorCode | None:
    """Up to v3, with one key."""
    return coordinator_key(asking, request, request["key"]) if "key" in request else None


def coordinator_key(asking: Asking, request: Tree, key: str) -> ErrorCode | None:
    is_transaction = request.get("key_type") == _TRANSACTION
    kind = ResourceType.TRANSACTIONAL_ID if is_transaction else ResourceType.GROUP
    return asking.refusal(Operation.DESCRIBE, kind, key)


def init_producer_id(asking: Asking, request: Tree) -> ErrorCode | None:
    if request["transactional_id"] is not None:
        return on_transaction(asking, request)
    if asking.access.allows_any(Operation.WRITE, ResourceType.TOPIC):
        return None
    return asking.of_cluster(Operation.IDEMPOTENT_WRITE)


def write_markers(asking: Asking, request: Tree) -> ErrorCode | None:
    if asking.may_in_cluster(Operation.ALTER):
        return None
    return asking.of_cluster(Operation.CLUSTER_ACTION)


def heartbeat(asking: Asking, request: Tree) -> ErrorCode | None:
    """Of a group of the consumer or the share protocol. What a pattern matches the cluster finds, by the principal of
    the mesh."""
    code = _reads_group(asking, request) or _describes(asking, request.get("subscribed_topic_names") or ())
    if code is None and request.get("subscribed_topic_regex"):
        is_allowed = asking.access.allows_all(Operation.DESCRIBE, ResourceType.TOPIC)
        return None if is_allowed else ErrorCode.INVALID_REGULAR_EXPRESSION
    return code


def streams_heartbeat(asking: Asking, request: Tree) -> ErrorCode | None:
    """The cluster makes the topics of a topology that are not there, by the principal of the mesh."""
    topology = request.get("topology")
    if (code := _reads_group(asking, request)) is not None or topology is None:
        return code
    parts = topology["subtopologies"]
    made = [topic["name"] for part in parts for key in _MADE_FOR_STREAMS for topic in part[key]]
    named = [name for part in parts for key in ("source_topics", "repartition_sink_topics") for name in part[key]]
    if any(part["source_topic_regex"] for part in parts) and not asking.access.allows_all(
        Operation.DESCRIBE, ResourceType.TOPIC
    ):
        return ErrorCode.STREAMS_INVALID_TOPOLOGY
    code = _describes(asking, dict.fromkeys((*named, *made)))
    return code or next(_creations(asking, made), None)


_MADE_FOR_STREAMS: Final = ("repartition_source_topics", "state_changelog_topics")
_reads_group: Final = on_group(Operation.READ)


def _describes(asking: Asking, names: Collection[str]) -> ErrorCode | None:
    """The error if one of them must not be seen; all of those are refusals."""
    codes = [asking.refusal(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names]
    return next(filter(None, codes), None)


def _creations(asking: Asking, names: Collection[str]) -> Iterator[ErrorCode]:
    if not asking.may_in_cluster(Operation.CREATE):
        for name in names:
            if (code := asking.refusal(Operation.CREATE, ResourceType.TOPIC, name)) is not None:
                yield code
