"""Messages of share groups (KIP-932): those of members, and those of tools that inspect groups.

The partitions of ShareFetch are tuples, like those of Fetch (`mesh.wire.messages.data`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from mesh.wire.errors import ErrorCode
from mesh.wire.messages.consumer_groups import DescribedAssignment, TopicIdPartitions
from mesh.wire.messages.data import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatRequest:
    """A ShareGroupHeartbeat request. member_epoch: 0 joins, -1 leaves. subscribed_topic_names: None if they have not
    changed."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupAssignment:
    topic_partitions: tuple[TopicIdPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatResponse:
    """The response of ShareGroupHeartbeat. assignment: the whole assignment; None if it has not changed."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupAssignment | None = None


class AcknowledgementBatch(NamedTuple):
    """Acknowledged offsets from `first` to `last`, both included. types: one byte for all of them, or one byte for
    each: 0 for gap, 1 for accept, 2 for release, 3 for reject, 4 for renew (since v2)."""

    first: int
    last: int
    types: bytes


class SharePartition(NamedTuple):
    partition: int
    acknowledgements: tuple[AcknowledgementBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTopic:
    """A topic in share requests. topic_id: None for the zero UUID."""

    topic_id: UUID | None
    partitions: tuple[SharePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchRequest:
    """A ShareFetch request. share_session_epoch: 0 opens a session, -1 ends it. share_acquire_mode: 0 for whole
    batches, 1 for no more than `max_records`. batch_size: the most offsets of a range in the answer, unless the range
    is one batch. is_renew_ack: whether the request renews locks, and fetches nothing."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: tuple[ShareTopic, ...] = ()
    forgotten_topics: tuple[TopicIdPartitions, ...] = ()


class AcquiredRange(NamedTuple):
    """The offsets from `first` to `last` that a member has just acquired. delivery_count: 1 at their first delivery."""

    first: int
    last: int
    delivery_count: int


class ShareFetchPartitionResponse(NamedTuple):
    """A partition in the response of ShareFetch. records: whole batches, in any number of buffers that are sent one
    after the other, and never null. Records outside of the ranges in `acquired` do not belong to the member."""

    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    acknowledge_error_code: ErrorCode = ErrorCode.NONE
    records: tuple[Buffer, ...] = ()
    acquired: tuple[AcquiredRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchTopicResponse:
    topic_id: UUID | None
    partitions: tuple[ShareFetchPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchResponse:
    """The response of ShareFetch, which never contains a new leader here. acquisition_lock_timeout_ms: how long the
    member keeps the records that it acquires."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    topics: tuple[ShareFetchTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeRequest:
    """A ShareAcknowledge request. share_session_epoch: -1 ends the session."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool = False
    topics: tuple[ShareTopic, ...] = ()


class ShareAcknowledgePartitionResponse(NamedTuple):
    partition: int
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeTopicResponse:
    topic_id: UUID | None
    partitions: tuple[ShareAcknowledgePartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeResponse:
    """The response of ShareAcknowledge. acquisition_lock_timeout_ms: since v2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    topics: tuple[ShareAcknowledgeTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareMember:
    member_id: str
    rack_id: str | None = None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: DescribedAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedShareMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse:
    """The response of ShareGroupDescribe. groups: one for each requested group, in the order of the request."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedShareGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsTopic:
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsGroup:
    """A group in a DescribeShareGroupOffsets request. topics: None asks for all topics of the group."""

    group_id: str
    topics: tuple[ShareOffsetsTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequest:
    groups: tuple[ShareOffsetsGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsPartitionResponse:
    """A partition in the response of DescribeShareGroupOffsets. start_offset: the lowest offset that is not settled, -1
    for none. lag: the number of records that are not settled, -1 if it is unknown; since v1."""

    partition_index: int
    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsTopicResponse:
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[ShareOffsetsPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsGroupResponse:
    group_id: str
    topics: tuple[ShareOffsetsTopicResponse, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = 0
    groups: tuple[ShareOffsetsGroupResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShareOffset:
    partition_index: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShareOffsetsTopic:
    topic_name: str
    partitions: tuple[NewShareOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequest:
    group_id: str
    topics: tuple[NewShareOffsetsTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredShareOffset:
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredShareOffsetsTopic:
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[AlteredShareOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: tuple[AlteredShareOffsetsTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsTopicToDelete:
    topic_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequest:
    group_id: str
    topics: tuple[ShareOffsetsTopicToDelete, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedShareOffsetsTopic:
    topic_name: str
    topic_id: UUID | None
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: tuple[DeletedShareOffsetsTopic, ...] = ()
