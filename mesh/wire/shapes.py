"""Older versions of another shape than our messages, which have the newest shape.

FindCoordinator up to v3 has one key (KIP-699), OffsetFetch up to v7 one group (KIP-709), LeaveGroup up to v2 one member
(KIP-345). The classes here have the shape of those versions, with kio's field names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MetadataRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
    OffsetFetchTopicResponse,
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class OlderShape:
    """The shape of versions up to `last_version`. convert: converts requests to our shape, and responses to the older
    shape."""

    last_version: int
    message: type
    convert: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKeyRequest:
    key: str
    key_type: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKeyResponse:
    throttle_time_ms: int
    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGroupRequest:
    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGroupResponse:
    throttle_time_ms: int
    topics: tuple[OffsetFetchTopicResponse, ...]
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMemberRequest:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMemberResponse:
    throttle_time_ms: int
    error_code: ErrorCode


def _all_topics(request: MetadataRequest) -> MetadataRequest:
    # Metadata v0 cannot send null: an empty array asks for all topics.
    return request if request.topics else replace(request, topics=None)


def _session_timeout_twice(request: JoinGroupRequest) -> JoinGroupRequest:
    return replace(request, rebalance_timeout_ms=request.session_timeout_ms)


def _from_one_key(request: OneKeyRequest) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=request.key_type, coordinator_keys=(request.key,))


def _from_one_group(request: OneGroupRequest) -> OffsetFetchRequest:
    group = OffsetFetchGroup(group_id=request.group_id, topics=request.topics)
    return OffsetFetchRequest(groups=(group,), require_stable=request.require_stable)


def _from_one_member(request: OneMemberRequest) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=request.group_id, members=(LeaveGroupMember(member_id=request.member_id),))


def _to_one_key(response: FindCoordinatorResponse) -> OneKeyResponse:
    coordinator = _only(response.coordinators)
    return OneKeyResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _to_one_group(response: OffsetFetchResponse) -> OneGroupResponse:
    group = _only(response.groups)
    return OneGroupResponse(
        throttle_time_ms=response.throttle_time_ms, topics=group.topics, error_code=group.error_code
    )


def _to_one_group_without_error(response: OffsetFetchResponse) -> OneGroupResponse:
    # OffsetFetch v1 has no group-level error: brokers set it on every partition.
    older = _to_one_group(response)
    if older.error_code is ErrorCode.NONE:
        return older
    return replace(older, topics=tuple(_failed(topic, older.error_code) for topic in older.topics))


def _failed(topic: OffsetFetchTopicResponse, error_code: ErrorCode) -> OffsetFetchTopicResponse:
    return replace(topic, partitions=tuple(replace(part, error_code=error_code) for part in topic.partitions))


def _to_one_member(response: LeaveGroupResponse) -> OneMemberResponse:
    error_code = response.error_code
    if error_code is ErrorCode.NONE and response.members:
        error_code = _only(response.members).error_code
    return OneMemberResponse(throttle_time_ms=response.throttle_time_ms, error_code=error_code)


def _only(items: Sequence[Item]) -> Item:
    if len(items) != 1:
        raise ValueError(f"this version has room for one answer, not for {len(items)}")
    return items[0]


def older_shape(shapes: Mapping[ApiKey, tuple[OlderShape, ...]], api_key: ApiKey, version: int) -> OlderShape | None:
    """Returns the shape of a version from one of the two tables below; None if it is that of our message."""
    return next((shape for shape in shapes.get(api_key, ()) if version <= shape.last_version), None)


OLDER_REQUESTS: Final[Mapping[ApiKey, tuple[OlderShape, ...]]] = MappingProxyType(
    {
        ApiKey.METADATA: (OlderShape(0, MetadataRequest, _all_topics),),
        ApiKey.JOIN_GROUP: (OlderShape(0, JoinGroupRequest, _session_timeout_twice),),
        ApiKey.FIND_COORDINATOR: (OlderShape(3, OneKeyRequest, _from_one_key),),
        ApiKey.OFFSET_FETCH: (OlderShape(7, OneGroupRequest, _from_one_group),),
        ApiKey.LEAVE_GROUP: (OlderShape(2, OneMemberRequest, _from_one_member),),
    }
)

OLDER_RESPONSES: Final[Mapping[ApiKey, tuple[OlderShape, ...]]] = MappingProxyType(
    {
        ApiKey.FIND_COORDINATOR: (OlderShape(3, OneKeyResponse, _to_one_key),),
        ApiKey.OFFSET_FETCH: (
            OlderShape(1, OneGroupResponse, _to_one_group_without_error),
            OlderShape(7, OneGroupResponse, _to_one_group),
        ),
        ApiKey.LEAVE_GROUP: (OlderShape(2, OneMemberResponse, _to_one_member),),
    }
)
