"""AlterShareGroupOffsets: v0-v0

Behaviour:
* Sets the offset at which a group without members begins, in the upstream group, like OffsetCommit of a tool. It
  discards all earlier acknowledgements. A group with members, here or upstream, gets NON_EMPTY_GROUP.

Ignored: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice, refusal
from mesh.pool.common.effects import AskUpstream, Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import OffsetsSet, SetOffsets
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    AlteredShareOffset,
    AlteredShareOffsetsTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


def handle(context: PoolContext, request: AlterShareGroupOffsetsRequest) -> Sequence[Effect]:
    notice(context)
    group = GroupId(request.group_id)
    error = refusal(context, group)
    pool = context.core.pools.get(group)
    if error is ErrorCode.NONE and pool is not None and any(True for _ in pool.members):
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        return context.answer(AlterShareGroupOffsetsResponse(error_code=error))
    offsets: dict[UpstreamPartition, int] = {}
    for topic in request.topics:
        for each in topic.partitions:
            source = context.core.topics.partition(TopicName(topic.topic_name), each.partition_index)
            if source is not None and each.start_offset >= 0:
                offsets[source] = each.start_offset
    if not offsets:
        return [Answer(context.ticket, OffsetsSet({}))]
    return [AskUpstream(context.ticket, SetOffsets(group, offsets))]


def respond(
    context: PoolContext, request: AlterShareGroupOffsetsRequest, result: OffsetsSet | AlterShareGroupOffsetsResponse
) -> AlterShareGroupOffsetsResponse:
    if isinstance(result, AlterShareGroupOffsetsResponse):
        return result
    return AlterShareGroupOffsetsResponse(
        responses=tuple(
            AlteredShareOffsetsTopic(
                topic_name=topic.topic_name,
                topic_id=context.core.topics.topic_id(TopicName(topic.topic_name)),
                partitions=tuple(
                    AlteredShareOffset(
                        partition_index=each.partition_index,
                        error_code=_error(context, TopicName(topic.topic_name), each.partition_index, result),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _error(context: PoolContext, topic: TopicName, number: int, done: OffsetsSet) -> ErrorCode:
    source = context.core.topics.partition(topic, number)
    if source is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = done.errors.get(source, ErrorCode.INVALID_REQUEST)
    # The upstream group has members: another process of the mesh, or consumers that read it directly.
    return ErrorCode.NON_EMPTY_GROUP if error is ErrorCode.UNKNOWN_MEMBER_ID else error


API = Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, APIS[ApiKey.ALTER_SHARE_GROUP_OFFSETS], handle, respond)
