"""The errors of each API for elements that no cluster of a union can serve, and for a cluster that is down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mesh.routing.kit.union_apis import UNION_APIS, LeafDestination
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode

_FIRST_ABORTABLE: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.ADD_PARTITIONS_TO_TXN: 5,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
    }
)
"""The first versions that know the error TRANSACTION_ABORTABLE (KIP-890)."""

_DOWN: Final[Mapping[ApiKey, ErrorCode]] = MappingProxyType(
    {
        # With this error clients retry without looking for another coordinator.
        ApiKey.OFFSET_COMMIT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ApiKey.OFFSET_FETCH: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ApiKey.TXN_OFFSET_COMMIT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ApiKey.LIST_GROUPS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ApiKey.LIST_TRANSACTIONS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: ErrorCode.LEADER_NOT_AVAILABLE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ErrorCode.REQUEST_TIMED_OUT,
        ApiKey.PUSH_TELEMETRY: ErrorCode.REQUEST_TIMED_OUT,
    }
)
_DOWN_BY_DESTINATION: Final[Mapping[LeafDestination, ErrorCode]] = MappingProxyType(
    {
        LeafDestination.COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        LeafDestination.OFFSETS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        LeafDestination.OWN_NODE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


@dataclass(frozen=True, slots=True)
class ElementRefusal:
    """The refusal of an element that is sent to no cluster. code: NONE if the answer is simply empty."""

    code: ErrorCode
    message: str | None


def no_such_topic(api_key: ApiKey, topic: str) -> ElementRefusal:
    """Returns the refusal of a topic without an owner."""
    no_place = f"no cluster behind this address has a place for topic {topic}"
    match api_key:
        case ApiKey.CREATE_TOPICS:
            return ElementRefusal(ErrorCode.POLICY_VIOLATION, no_place)
        case ApiKey.STREAMS_GROUP_HEARTBEAT:
            return ElementRefusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, no_place)
        case ApiKey.OFFSET_FETCH:
            return ElementRefusal(ErrorCode.NONE, None)  # like a broker for a group without commits
        case _:
            return ElementRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def no_such_topic_id() -> ElementRefusal:
    return ElementRefusal(ErrorCode.UNKNOWN_TOPIC_ID, None)


def topic_elsewhere(api_key: ApiKey, version: int, topic: str) -> ElementRefusal:
    """Returns the refusal of a topic whose owner is another cluster than that of the request."""
    if UNION_APIS[api_key].destination is LeafDestination.OWN_NODE:
        return ElementRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    if api_key is ApiKey.STREAMS_GROUP_HEARTBEAT:
        return ElementRefusal(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"{_elsewhere(topic)}; all topics of a topology are in one"
        )
    if version >= _FIRST_ABORTABLE.get(api_key, version + 1):
        return ElementRefusal(ErrorCode.TRANSACTION_ABORTABLE, _elsewhere(topic))
    return ElementRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _elsewhere(topic))


def group_elsewhere(api_key: ApiKey, version: int, group_id: str) -> ElementRefusal:
    """Returns the refusal of a group whose home is another cluster than its transaction's."""
    if version >= _FIRST_ABORTABLE.get(api_key, version + 1):
        return ElementRefusal(ErrorCode.TRANSACTION_ABORTABLE, None)
    return ElementRefusal(
        ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {group_id} is in another cluster than the transaction"
    )


def node_elsewhere(node: int) -> ElementRefusal:
    """Returns the refusal of a replica on a node of another cluster than the topic's."""
    return ElementRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"node {node} is in another cluster than the topic")


def no_such_node(name: str) -> ElementRefusal:
    return ElementRefusal(ErrorCode.INVALID_REQUEST, f"there is no node {name} here")


def declared_widths(topic: str) -> ElementRefusal:
    text = f"topic {topic} is concatenated of several; it has as many partitions as the configuration says"
    return ElementRefusal(ErrorCode.POLICY_VIOLATION, text)


def replicas_of_several(topic: str) -> ElementRefusal:
    text = f"topic {topic} is concatenated of topics of several clusters; each of them places its replicas itself"
    return ElementRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def other_width(topic: str, width: int) -> ElementRefusal:
    text = f"topic {topic} is concatenated of several, with {width} partitions by the configuration"
    return ElementRefusal(ErrorCode.INVALID_PARTITIONS, text)


def pattern_of_other_names(api_key: ApiKey) -> ElementRefusal:
    """Returns the refusal of a regular expression where clients see other topic names: the cluster would match its
    own."""
    text = "topics have other names in the cluster that would look for this pattern; subscribe to them by name"
    if api_key is ApiKey.STREAMS_GROUP_HEARTBEAT:
        return ElementRefusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return ElementRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def code_when_down(api_key: ApiKey) -> ErrorCode:
    """Returns the error for all elements that belong to a cluster that is down."""
    by_destination = _DOWN_BY_DESTINATION.get(UNION_APIS[api_key].destination, ErrorCode.REQUEST_TIMED_OUT)
    return _DOWN.get(api_key, by_destination)


def _elsewhere(topic: str) -> str:
    return f"topic {topic} is in another cluster"
