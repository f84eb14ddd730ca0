"""Messages of tools that inspect and change groups and clusters."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroupMember:
    """A member in DescribeGroups. member_metadata: a ConsumerProtocolSubscription. member_assignment: a
    ConsumerProtocolAssignment."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group in DescribeGroups. protocol_data: the name of the assignor. error_message: since v6."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    """The response of DescribeGroups. groups: one for each requested group, in the order of the request."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """A ListGroups request; an empty filter matches all groups. states_filter: since v4. types_filter: since v5
    (KIP-848)."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str = ""
    group_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """The response of DeleteGroups. results: one for each requested group, in the order of the request."""

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeletePartition:
    partition_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteTopic:
    name: str
    partitions: tuple[OffsetDeletePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeletePartitionResponse:
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteTopicResponse:
    name: str
    partitions: tuple[OffsetDeletePartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    """The response of OffsetDelete. error_code: the top-level error; with an error there are no topics."""

    error_code: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest:
    """A DescribeCluster request. endpoint_type: 1 for brokers, 2 for controllers; since v1 (KIP-919)."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterBroker:
    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
