"""Messages to a group coordinator: FindCoordinator, the classic group protocol, and committed offsets."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """A FindCoordinator request. key_type: 0 for groups, 1 for transactions, 2 for share groups. Up to v3 there is
    exactly one key."""

    key_type: int = 0
    coordinator_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """The response of FindCoordinator. coordinators: one for each requested key, in the order of the request."""

    throttle_time_ms: int = 0
    coordinators: tuple[Coordinator, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """A JoinGroup request. rebalance_timeout_ms: v0 lacks it; it is then the session timeout, as in brokers."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupProtocol, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupMember:
    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The response of JoinGroup. protocol_name: None is encoded as an empty string before v7. protocol_type: since v7
    (KIP-559)."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupAssignment:
    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupMember:
    """A member in a LeaveGroup request. member_id: empty if a static member is removed by its group_instance_id
    alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """A LeaveGroup request. Up to v2 exactly one member leaves."""

    group_id: str
    members: tuple[LeaveGroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupMemberResponse:
    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """The response of LeaveGroup. Up to v2 the error of the one member becomes the top-level error, unless there is a
    top-level error already."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[LeaveGroupMemberResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopic:
    name: str
    partitions: tuple[OffsetCommitPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """An OffsetCommit request. generation_id_or_member_epoch: -1, with an empty member_id, from a consumer that is not
    a member."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[OffsetCommitTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartitionResponse:
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopicResponse:
    name: str
    partitions: tuple[OffsetCommitPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    throttle_time_ms: int = 0
    topics: tuple[OffsetCommitTopicResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopic:
    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroup:
    """A group in an OffsetFetch request. topics: None asks for all topics with a committed offset. member_id,
    member_epoch: since v9."""

    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """An OffsetFetch request. Up to v7 there is exactly one group."""

    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchPartitionResponse:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopicResponse:
    name: str
    partitions: tuple[OffsetFetchPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroupResponse:
    """A group in the response of OffsetFetch. error_code: v1 can report it only in partitions, so the requested
    partitions must be listed even with an error."""

    group_id: str
    topics: tuple[OffsetFetchTopicResponse, ...]
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """The response of OffsetFetch. groups: one for each requested group, in the order of the request."""

    throttle_time_ms: int = 0
    groups: tuple[OffsetFetchGroupResponse, ...]
