"""Answers of a pool to the group's requests, free of API versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.pool.common.ids import MemberId
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode

TopicPartition = tuple[TopicName, int]
"""A virtual topic and partition, as clients name them."""


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A generation of one: the member is its own leader. generation: -1 with an error."""

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
    """The answer to a ConsumerGroupHeartbeat. assignment: how many partitions of each topic, the whole of it; None for
    unchanged, or with an error."""

    error: ErrorCode
    message: str | None
    member_id: MemberId
    epoch: int = 0
    assignment: Mapping[TopicName, int] | None = None


@dataclass(frozen=True, slots=True)
class ShareHeartbeatResult:
    """The answer to a ShareGroupHeartbeat. assignment: as in `ConsumerHeartbeatResult`."""

    error: ErrorCode
    member_id: MemberId
    epoch: int = 0
    assignment: Mapping[TopicName, int] | None = None


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """One (member id, instance id, error) for each member named in the request."""

    members: tuple[tuple[str, str | None, ErrorCode], ...]


@dataclass(frozen=True, slots=True)
class CommitResult:
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The answer to an OffsetFetch of a member. offsets: the virtual position of each partition asked for, -1 with an
    error."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, tuple[ErrorCode, int]]
