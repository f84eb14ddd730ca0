"""DeleteShareGroupOffsets: v0-v0

Behaviour:
* Deletes the committed offsets of a group without members for topics, in the upstream group, by OffsetDelete. Later
  members begin where `share.auto.offset.reset` says. A group with members, here or upstream, gets NON_EMPTY_GROUP.
* A hidden topic gets UNKNOWN_TOPIC_OR_PARTITION. If the cluster is older than Kafka 2.4, or the mesh has no own
  connections to it, the answer is UNSUPPORTED_VERSION.

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
from mesh.pool.common.queries import DeleteOffsets, OffsetsDeleted
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    DeletedShareOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


def handle(context: PoolContext, request: DeleteShareGroupOffsetsRequest) -> Sequence[Effect]:
    notice(context)
    group = GroupId(request.group_id)
    error = refusal(context, group)
    pool = context.core.pools.get(group)
    if error is ErrorCode.NONE and pool is not None and any(True for _ in pool.members):
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        return context.answer(DeleteShareGroupOffsetsResponse(error_code=error))
    topics = context.core.topics
    sources = frozenset(source for each in request.topics for source in topics.partitions(TopicName(each.topic_name)))
    if not sources:
        return [Answer(context.ticket, OffsetsDeleted({}))]
    return [AskUpstream(context.ticket, DeleteOffsets(group, sources))]


def respond(
    context: PoolContext,
    request: DeleteShareGroupOffsetsRequest,
    result: OffsetsDeleted | DeleteShareGroupOffsetsResponse,
) -> DeleteShareGroupOffsetsResponse:
    if isinstance(result, DeleteShareGroupOffsetsResponse):
        return result
    return DeleteShareGroupOffsetsResponse(
        responses=tuple(
            DeletedShareOffsetsTopic(
                topic_name=each.topic_name,
                topic_id=context.core.topics.topic_id(TopicName(each.topic_name)),
                error_code=_error(context, TopicName(each.topic_name), result),
            )
            for each in request.topics
        )
    )


def _error(context: PoolContext, topic: TopicName, done: OffsetsDeleted) -> ErrorCode:
    """Returns the first error of the topic's partitions. A cluster that does not know the group has no offsets of it,
    which is no error."""
    if topic not in context.core.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = [done.errors[source] for source in context.core.topics.partitions(topic) if source in done.errors]
    if errors and all(each is ErrorCode.GROUP_ID_NOT_FOUND for each in errors):
        return ErrorCode.GROUP_ID_NOT_FOUND
    wrong = (each for each in errors if each not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND))
    error = next(wrong, ErrorCode.NONE)
    return ErrorCode.NON_EMPTY_GROUP if error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC else error


API = Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, APIS[ApiKey.DELETE_SHARE_GROUP_OFFSETS], handle, respond)
