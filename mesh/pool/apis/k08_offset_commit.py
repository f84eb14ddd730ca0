"""OffsetCommit: v2-v9

Behaviour:
* Settles the records below the offset that the member's slot still holds. The answer waits until the storable part is
  stored in the upstream group: NONE, or within 3 s COORDINATOR_LOAD_IN_PROGRESS (clients retry). For a partition that
  moved to another process it is REBALANCE_IN_PROGRESS until the member has joined again (docs/decisions/0028); a member
  of the consumer protocol gets UNKNOWN_MEMBER_ID instead (docs/decisions/0049).
* An offset below the committed position, or of a member that is gone: NONE, without effect. An offset above the sent
  records, or of another member: OFFSET_OUT_OF_RANGE, and nothing is settled.
* A tool (mesh/pool/identity/tools.py) sets the upstream offsets of a group that has no members, here or upstream. If it
  has some: UNKNOWN_MEMBER_ID.
* A wrong member id or generation: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID. Only slots of consumers
  that fetch without having joined need no member id. If the member of such a slot is gone: NONE, without effect.
  The commit then tells the group of the slot (docs/decisions/0110).

Version notes:
* v7: static members (KIP-345). v8: flexible (KIP-482). v9: the member epoch of KIP-848;
  STALE_MEMBER_EPOCH unless the member has had it since it joined.

Ignored: committed_metadata (not kept), committed_leader_epoch, retention_time_ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import is_tool, refusal
from mesh.pool.common.effects import AskUpstream, Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.queries import OffsetsSet, SetOffsets
from mesh.pool.common.results import CommitResult, TopicPartition
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)


def handle(context: PoolContext, request: OffsetCommitRequest) -> Sequence[Effect]:
    positions = [
        (TopicName(topic.name), partition.partition_index, partition.committed_offset)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if not request.member_id and request.generation_id_or_member_epoch < 0 and is_tool(context):
        return _set(context, GroupId(request.group_id), positions)
    return context.core.commit(
        context.connection,
        context.ticket,
        GroupId(request.group_id),
        MemberId(request.member_id),
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        positions,
        context.now,
    )


def _set(context: PoolContext, group: GroupId, positions: Sequence[tuple[TopicName, int, int]]) -> list[Effect]:
    error = refusal(context, group)
    pool = context.core.pools.get(group)
    if error is ErrorCode.NONE and pool is not None and any(True for _ in pool.members):
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if error is not ErrorCode.NONE:
        return [Answer(context.ticket, CommitResult({(topic, index): error for topic, index, _ in positions}))]
    offsets = {
        source: offset
        for topic, index, offset in positions
        for source in [context.core.topics.partition(topic, index)]
        if source is not None and offset >= 0
    }
    return [AskUpstream(context.ticket, SetOffsets(group, offsets))]


def respond(
    context: PoolContext, request: OffsetCommitRequest, result: CommitResult | OffsetsSet
) -> OffsetCommitResponse:
    if isinstance(result, OffsetsSet):
        result = _numbered(context, request, result)
    topics = tuple(
        OffsetCommitTopicResponse(
            name=topic.name,
            partitions=tuple(
                OffsetCommitPartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=result.errors[TopicName(topic.name), partition.partition_index],
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetCommitResponse(topics=topics)


def _numbered(context: PoolContext, request: OffsetCommitRequest, done: OffsetsSet) -> CommitResult:
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for each in topic.partitions:
            name, index = TopicName(topic.name), each.partition_index
            source = context.core.topics.partition(name, index)
            if source is None:
                errors[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                errors[name, index] = done.errors.get(source, ErrorCode.OFFSET_OUT_OF_RANGE)
    return CommitResult(errors)


API = Api(ApiKey.OFFSET_COMMIT, APIS[ApiKey.OFFSET_COMMIT], handle, respond)
