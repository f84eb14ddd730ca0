"""The results of group requests to a pool, independent of API versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.pool.common.ids import GroupId, MemberId
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode

TopicPartition = tuple[TopicName, int]
"""A virtual topic and partition number, as clients name them."""


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The result of a JoinGroup. The member is alone in its generation, as its own leader. generation: -1 with an
    error."""

    error: ErrorCode
    member_id: MemberId
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    instance_id: str | None = None
    subscription: bytes = b""


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatResult:
    """The result of a ConsumerGroupHeartbeat. assignment: the complete number of partitions by topic; None if
    unchanged, or with an error."""

    error: ErrorCode
    message: str | None
    member_id: MemberId
    epoch: int = 0
    assignment: Mapping[TopicName, int] | None = None


@dataclass(frozen=True, slots=True)
class ShareHeartbeatResult:
    """The result of a ShareGroupHeartbeat. assignment: as in `ConsumerHeartbeatResult`."""

    error: ErrorCode
    member_id: MemberId
    epoch: int = 0
    assignment: Mapping[TopicName, int] | None = None


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """The result of a LeaveGroup: (member id, instance id, error) for each member of the request."""

    members: tuple[tuple[str, str | None, ErrorCode], ...]


@dataclass(frozen=True, slots=True)
class CommitResult:
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The result of an OffsetFetch of a member. offsets: the virtual position of each requested partition; -1 with an
    error."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, tuple[ErrorCode, int]]


@dataclass(frozen=True, slots=True)
class GroupConfigsChanged:
    """The result of changing configurations: an error and a message for each group."""

    outcomes: Mapping[GroupId, tuple[ErrorCode, str]]
