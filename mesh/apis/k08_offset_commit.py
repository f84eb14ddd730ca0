"""OffsetCommit: v2-v9

Behaviour:
* Settles what the member's slot still holds below the offset; answered when what can be stored of it is stored in the
  upstream group: NONE, or within 3 s COORDINATOR_LOAD_IN_PROGRESS (clients retry), or REBALANCE_IN_PROGRESS for a
  partition that moved to another process.
* Below the committed position, or an offset of a member that is gone: NONE, no effect. Above what was sent, or an
  offset of another member: OFFSET_OUT_OF_RANGE, nothing settled.
* A wrong member id or generation: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID. No member id: only for
  slots of consumers that fetch without having joined.

Version notes:
* v7: static members (KIP-345). v8: flexible (KIP-482). v9: the member epoch of KIP-848 - as a generation.

Ignored: committed_metadata (not kept), committed_leader_epoch, retention_time_ms.
"""

from __future__ import annotations

from mesh.apis.api import Api, Context
from mesh.pool.effects import Effect, GroupId, MemberId
from mesh.pool.results import CommitResult
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.messages import (
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)


def handle(context: Context, request: OffsetCommitRequest) -> list[Effect]:
    positions = [
        (TopicName(topic.name), partition.partition_index, partition.committed_offset)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return context.cluster.commit(
        context.connection,
        context.ticket,
        GroupId(request.group_id),
        MemberId(request.member_id),
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        positions,
        context.now,
    )


def respond(context: Context, request: OffsetCommitRequest, result: CommitResult) -> OffsetCommitResponse:
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


API = Api(ApiKey.OFFSET_COMMIT, APIS[ApiKey.OFFSET_COMMIT], handle, respond)
