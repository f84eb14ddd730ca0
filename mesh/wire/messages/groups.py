"""Messages to a group coordinator: FindCoordinator, the classic group protocol, and committed offsets."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """key_type: 0 group, 1 transaction, 2 share. Up to v3 there is exactly one key."""

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
    """coordinators: one for each key asked for, in that order."""

    throttle_time_ms: int = 0
    coordinators: tuple[Coordinator, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """rebalance_timeout_ms: in v0, which has none, the session timeout, as brokers do."""

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
    """protocol_name: sent as an empty string before v7 if it is None. protocol_type: from v7 on (KIP-559)."""

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
    """member_id: empty if a static member is removed by its group_instance_id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """Up to v2 exactly one member leaves."""

    group_id: str
    members: tuple[LeaveGroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupMemberResponse:
    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """Up to v2 the error of the one member is sent as that of the whole, unless that has one of its own."""

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
    """generation_id_or_member_epoch: -1, with an empty member_id, from a consumer outside the group protocol."""

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
    """topics: None asks for all topics with a committed offset. member_id, member_epoch: from v9 on."""

    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Up to v7 there is exactly one group."""

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
    """error_code: v1 has no place for it but the partitions, so list those asked for even if it is not NONE."""

    group_id: str
    topics: tuple[OffsetFetchTopicResponse, ...]
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """groups: one for each group asked for, in that order."""

    throttle_time_ms: int = 0
    groups: tuple[OffsetFetchGroupResponse, ...]
