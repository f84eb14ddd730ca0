"""OffsetDelete: v0-v0

Behaviour:
* Deletes the upstream committed offsets of a group without members for these partitions. A group with a pool here gets
  NON_EMPTY_GROUP. If members of the upstream group use the topic, the answer is GROUP_SUBSCRIBED_TO_TOPIC.
* A hidden topic gets UNKNOWN_TOPIC_OR_PARTITION. If the cluster is older than Kafka 2.4, or the mesh has no own
  connections to it, the answer is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice, refusal
from mesh.pool.common.effects import AskUpstream, Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import DeleteOffsets, OffsetsDeleted
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
)


def handle(context: PoolContext, request: OffsetDeleteRequest) -> Sequence[Effect]:
    notice(context)
    group = GroupId(request.group_id)
    error = refusal(context, group)
    if error is ErrorCode.NONE and group in context.core.pools:
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        return context.answer(OffsetDeleteResponse(error_code=error))
    named = (
        context.core.topics.partition(TopicName(topic.name), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    )
    sources = frozenset(source for source in named if source is not None)
    if not sources:
        return [Answer(context.ticket, OffsetsDeleted({}))]
    return [AskUpstream(context.ticket, DeleteOffsets(group, sources))]


def respond(
    context: PoolContext, request: OffsetDeleteRequest, result: OffsetsDeleted | OffsetDeleteResponse
) -> OffsetDeleteResponse:
    if isinstance(result, OffsetDeleteResponse):
        return result
    if result.errors and set(result.errors.values()) == {ErrorCode.GROUP_ID_NOT_FOUND}:
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteTopicResponse(
                name=topic.name,
                partitions=tuple(
                    OffsetDeletePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=_error(context, TopicName(topic.name), each.partition_index, result),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _error(context: PoolContext, topic: TopicName, number: int, done: OffsetsDeleted) -> ErrorCode:
    source = context.core.topics.partition(topic, number)
    if source is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = done.errors.get(source, ErrorCode.INVALID_REQUEST)
    # Clusters that do not know the group have nothing to delete.
    return ErrorCode.NONE if error is ErrorCode.GROUP_ID_NOT_FOUND else error


API = Api(ApiKey.OFFSET_DELETE, APIS[ApiKey.OFFSET_DELETE], handle, respond)
