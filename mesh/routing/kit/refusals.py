"""With which error each API says that a union has no place for something, or that a cluster is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mesh.routing.kit.union_apis import UNION_APIS, Way
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode

_FIRST_ABORTABLE: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.ADD_PARTITIONS_TO_TXN: 5,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
    }
)
"""The first versions with TRANSACTION_ABORTABLE (KIP-890)."""

_DOWN: Final[Mapping[ApiKey, ErrorCode]] = MappingProxyType(
    {
        # Asked again, without looking for another coordinator.
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
_DOWN_BY_WAY: Final[Mapping[Way, ErrorCode]] = MappingProxyType(
    {
        Way.COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        Way.OFFSETS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        Way.OWN_NODE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not asked of any cluster. code 0: it is nothing that could fail."""

    code: ErrorCode
    message: str | None


def no_such_topic(api_key: ApiKey, topic: str) -> Refusal:
    """The topic has no owner."""
    no_place = f"no cluster behind this address has a place for topic {topic}"
    match api_key:
        case ApiKey.CREATE_TOPICS:
            return Refusal(ErrorCode.POLICY_VIOLATION, no_place)
        case ApiKey.STREAMS_GROUP_HEARTBEAT:
            return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, no_place)
        case ApiKey.OFFSET_FETCH:
            return Refusal(ErrorCode.NONE, None)  # as a broker: nobody has committed anything there
        case _:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def no_such_topic_id() -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, None)


def topic_elsewhere(api_key: ApiKey, version: int, topic: str) -> Refusal:
    """The topic's owner is another cluster than the one that has to do with it."""
    if UNION_APIS[api_key].way is Way.OWN_NODE:
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    if api_key is ApiKey.STREAMS_GROUP_HEARTBEAT:
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"{_elsewhere(topic)}; all topics of a topology are in one")
    if version >= _FIRST_ABORTABLE.get(api_key, version + 1):
        return Refusal(ErrorCode.TRANSACTION_ABORTABLE, _elsewhere(topic))
    return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _elsewhere(topic))


def group_elsewhere(api_key: ApiKey, version: int, group_id: str) -> Refusal:
    """The home of a group is another one than its transaction's."""
    if version >= _FIRST_ABORTABLE.get(api_key, version + 1):
        return Refusal(ErrorCode.TRANSACTION_ABORTABLE, None)
    return Refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {group_id} is in another cluster than the transaction")


def node_elsewhere(node: int) -> Refusal:
    """A replica is to be on a node of another cluster than the topic's."""
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"node {node} is in another cluster than the topic")


def no_such_node(name: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, f"there is no node {name} here")


def pattern_of_other_names(api_key: ApiKey) -> Refusal:
    """A cluster whose names are not those of clients would look for a pattern among them."""
    text = "topics have other names in the cluster that would look for this pattern; subscribe to them by name"
    if api_key is ApiKey.STREAMS_GROUP_HEARTBEAT:
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def code_when_down(api_key: ApiKey) -> ErrorCode:
    """What is said of everything that a cluster was to be asked about which is not there."""
    by_way = _DOWN_BY_WAY.get(UNION_APIS[api_key].way, ErrorCode.REQUEST_TIMED_OUT)
    return _DOWN.get(api_key, by_way)


def _elsewhere(topic: str) -> str:
    return f"topic {topic} is in another cluster"
