"""ListOffsets: v1-v7

Behaviour:
* earliest is 0. latest is above every offset given so far, and no record ever has it: a Fetch there begins with the
  next records. For any other time the answer is -1, "no such offset".
* A tool (mesh/pool/identity/tools.py) gets upstream offsets, for every time, at its isolation level. If a cluster does
  not answer, it gets the end of the log as far as a pool knows it, else LEADER_NOT_AVAILABLE.

Version notes:
* v4: leader epochs (KIP-320) - 0. v6: flexible (KIP-482). v7: the largest timestamp (KIP-734) - answered with -1.

Ignored: isolation_level (of consumers), current_leader_epoch, replica_id.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import is_tool
from mesh.pool.common.effects import AskUpstream, Effect
from mesh.pool.common.queries import LogOffset, LogOffsets, LogOffsetsFound
from mesh.pool.core import ListOffset
from mesh.pool.inspection import known_ends
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

READ_COMMITTED = 1


def handle(context: PoolContext, request: ListOffsetsRequest) -> Sequence[Effect]:
    if is_tool(context):
        times = {
            source: asked.timestamp
            for topic in request.topics
            for asked in topic.partitions
            for source in [context.core.topics.partition(TopicName(topic.name), asked.partition_index)]
            if source is not None
        }
        return [AskUpstream(context.ticket, LogOffsets(times, request.isolation_level == READ_COMMITTED))]
    topics = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(_partition(context, TopicName(topic.name), asked) for asked in topic.partitions),
        )
        for topic in request.topics
    )
    return context.answer(ListOffsetsResponse(topics=topics))


def respond(
    context: PoolContext, request: ListOffsetsRequest, result: ListOffsetsResponse | LogOffsetsFound
) -> ListOffsetsResponse:
    if isinstance(result, ListOffsetsResponse):
        return result
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _of_upstream(context, TopicName(topic.name), asked, result) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _of_upstream(
    context: PoolContext, topic: TopicName, asked: ListOffsetsPartition, found: LogOffsetsFound
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    source = context.core.topics.partition(topic, index)
    if source is None or source not in found.offsets:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
    answer = found.offsets[source]
    if answer.error is not ErrorCode.NONE:
        known = known_ends(context.core.pools, source) if asked.timestamp == ListOffset.LATEST else None
        if known is None:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=answer.error)
        answer = LogOffset(ErrorCode.NONE, known)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=answer.offset,
        timestamp=answer.timestamp,
        leader_epoch=0 if answer.offset >= 0 else -1,
    )


def _partition(context: PoolContext, topic: TopicName, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    if context.core.topics.partition(topic, asked.partition_index) is None:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    offset = context.core.list_offset(asked.timestamp)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, offset=offset, leader_epoch=0 if offset >= 0 else -1
    )


API = Api(ApiKey.LIST_OFFSETS, APIS[ApiKey.LIST_OFFSETS], handle, respond)
