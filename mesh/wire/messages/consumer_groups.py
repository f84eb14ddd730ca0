"""Messages of the consumer group protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """A ConsumerGroupHeartbeat request. member_epoch: 0 joins, -1 leaves, -2 leaves for a while (a static member).
    topic_partitions: the partitions that the member owns.

    None, and a rebalance timeout of -1, mean that a field has not changed.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicIdPartitions, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupAssignment:
    topic_partitions: tuple[TopicIdPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    """The response of ConsumerGroupHeartbeat. assignment: the whole assignment; None if it has not changed."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ConsumerGroupAssignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopicPartitions:
    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedAssignment:
    topic_partitions: tuple[DescribedTopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member in ConsumerGroupDescribe. member_type: 0 for classic, 1 for consumer, -1 for unknown; since v1."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """The response of ConsumerGroupDescribe. groups: one for each requested group, in the order of the request."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedConsumerGroup, ...]
