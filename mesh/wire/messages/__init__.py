"""The messages that a mesh reads and writes, independent of versions: plain values with Kafka's field names.

Each API has one request and one response class, in the shape of its newest version. Fields that an older version lacks
have defaults; `mesh.wire.shapes` converts older versions of another shape. Durations are whole milliseconds, and their
names end in `_ms`. A topic id that is encoded as the zero UUID is None here.
"""

from __future__ import annotations

from typing import TypeAlias

from mesh.wire.messages.administration import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetDeletePartition,
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopic,
    OffsetDeleteTopicResponse,
)
from mesh.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from mesh.wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from mesh.wire.messages.configs import (
    GROUP_RESOURCE,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribedConfig,
    DescribedConfigSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from mesh.wire.messages.consumer_groups import (
    ConsumerGroupAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
    TopicIdPartitions,
)
from mesh.wire.messages.data import (
    Buffer,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    MetadataBroker,
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    MetadataTopicResponse,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRecordError,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from mesh.wire.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupMember,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitPartition,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetCommitTopicResponse,
    OffsetFetchGroup,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
    OffsetFetchTopicResponse,
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from mesh.wire.messages.share_groups import (
    AcknowledgementBatch,
    AcquiredRange,
    AlteredShareOffset,
    AlteredShareOffsetsTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeletedShareOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    NewShareOffset,
    NewShareOffsetsTopic,
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
    ShareGroupAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareOffsetsGroup,
    ShareOffsetsGroupResponse,
    ShareOffsetsPartitionResponse,
    ShareOffsetsTopic,
    ShareOffsetsTopicResponse,
    ShareOffsetsTopicToDelete,
    SharePartition,
    ShareTopic,
)

RequestMessage: TypeAlias = (
    ApiVersionsRequest
    | SaslHandshakeRequest
    | SaslAuthenticateRequest
    | MetadataRequest
    | ListOffsetsRequest
    | FetchRequest
    | ProduceRequest
    | FindCoordinatorRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | OffsetDeleteRequest
    | DescribeClusterRequest
    | ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
    | ShareGroupHeartbeatRequest
    | ShareFetchRequest
    | ShareAcknowledgeRequest
    | ShareGroupDescribeRequest
    | DescribeShareGroupOffsetsRequest
    | AlterShareGroupOffsetsRequest
    | DeleteShareGroupOffsetsRequest
    | DescribeConfigsRequest
    | IncrementalAlterConfigsRequest
    | ListConfigResourcesRequest
)

ResponseMessage: TypeAlias = (
    ApiVersionsResponse
    | SaslHandshakeResponse
    | SaslAuthenticateResponse
    | MetadataResponse
    | ListOffsetsResponse
    | FetchResponse
    | ProduceResponse
    | FindCoordinatorResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
    | OffsetDeleteResponse
    | DescribeClusterResponse
    | ConsumerGroupHeartbeatResponse
    | ConsumerGroupDescribeResponse
    | ShareGroupHeartbeatResponse
    | ShareFetchResponse
    | ShareAcknowledgeResponse
    | ShareGroupDescribeResponse
    | DescribeShareGroupOffsetsResponse
    | AlterShareGroupOffsetsResponse
    | DeleteShareGroupOffsetsResponse
    | DescribeConfigsResponse
    | IncrementalAlterConfigsResponse
    | ListConfigResourcesResponse
)

__all__ = [
    "GROUP_RESOURCE",
    "AcknowledgementBatch",
    "AcquiredRange",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "AlterableConfig",
    "AlteredShareOffset",
    "AlteredShareOffsetsTopic",
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "Buffer",
    "ConfigResource",
    "ConsumerGroupAssignment",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "Coordinator",
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DeletedShareOffsetsTopic",
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "DescribedAssignment",
    "DescribedConfig",
    "DescribedConfigSynonym",
    "DescribedConsumer",
    "DescribedConsumerGroup",
    "DescribedGroup",
    "DescribedGroupMember",
    "DescribedShareGroup",
    "DescribedShareMember",
    "DescribedTopicPartitions",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchTopicResponse",
    "FinalizedFeatureKey",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "ForgottenTopic",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "JoinGroupMember",
    "JoinGroupProtocol",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupMember",
    "LeaveGroupMemberResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "ListedGroup",
    "MetadataBroker",
    "MetadataPartitionResponse",
    "MetadataRequest",
    "MetadataResponse",
    "MetadataTopic",
    "MetadataTopicResponse",
    "NewShareOffset",
    "NewShareOffsetsTopic",
    "OffsetCommitPartition",
    "OffsetCommitPartitionResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetCommitTopic",
    "OffsetCommitTopicResponse",
    "OffsetDeletePartition",
    "OffsetDeletePartitionResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetDeleteTopic",
    "OffsetDeleteTopicResponse",
    "OffsetFetchGroup",
    "OffsetFetchGroupResponse",
    "OffsetFetchPartitionResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetFetchTopic",
    "OffsetFetchTopicResponse",
    "ProducePartition",
    "ProducePartitionResponse",
    "ProduceRecordError",
    "ProduceRequest",
    "ProduceResponse",
    "ProduceTopic",
    "ProduceTopicResponse",
    "RequestMessage",
    "ResponseMessage",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ShareAcknowledgePartitionResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareAcknowledgeTopicResponse",
    "ShareFetchPartitionResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareFetchTopicResponse",
    "ShareGroupAssignment",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareOffsetsGroup",
    "ShareOffsetsGroupResponse",
    "ShareOffsetsPartitionResponse",
    "ShareOffsetsTopic",
    "ShareOffsetsTopicResponse",
    "ShareOffsetsTopicToDelete",
    "SharePartition",
    "ShareTopic",
    "SupportedFeatureKey",
    "SyncGroupAssignment",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TopicIdPartitions",
]
