"""ListOffsets: v1-v7

Behaviour:
* earliest is 0; latest lies above every offset given so far, and no record ever has it: a Fetch there begins with what
  comes next. Any other time is answered with -1, "no such offset".

Version notes:
* v4: leader epochs (KIP-320) - 0. v6: flexible (KIP-482). v7: the largest timestamp (KIP-734) - answered with -1.

Ignored: isolation_level, current_leader_epoch, replica_id.
"""

from __future__ import annotations

from mesh.apis.api import Api, Context, as_it_is
from mesh.pool.effects import Effect
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


def handle(context: Context, request: ListOffsetsRequest) -> list[Effect]:
    topics = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(_partition(context, TopicName(topic.name), asked) for asked in topic.partitions),
        )
        for topic in request.topics
    )
    return context.answer(ListOffsetsResponse(topics=topics))


def _partition(context: Context, topic: TopicName, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    if context.cluster.topics.partition(topic, asked.partition_index) is None:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    offset = context.cluster.list_offset(asked.timestamp)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, offset=offset, leader_epoch=0 if offset >= 0 else -1
    )


API = Api(ApiKey.LIST_OFFSETS, APIS[ApiKey.LIST_OFFSETS], handle, as_it_is)
