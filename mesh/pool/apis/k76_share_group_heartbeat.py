"""ShareGroupHeartbeat: v1-v1

Behaviour:
* A share member (KIP-932) joins (epoch 0), shows that it lives, and leaves (-1) by it. It is assigned every partition
  of the topics it subscribes to; members of other kinds may be in the same pool.
* Its epoch rises when its assignment changes and when it joins again. FENCED_MEMBER_EPOCH for another epoch than its
  own, unless an answer was lost; UNKNOWN_MEMBER_ID for a member that is not known, also if its group is not.
* Leaving does not give back what the member has acquired: the end of its share session does.

Version notes:
* v1: the first one; v0 was that of Kafka 4.0's early access, in which brokers named the members.

Ignored: rack_id (everything is assigned to everybody).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import ShareHeartbeatResult
from mesh.pool.groups.share_protocol import HEARTBEAT_INTERVAL, ShareHeartbeat
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ShareGroupAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicIdPartitions,
)


def handle(context: PoolContext, request: ShareGroupHeartbeatRequest) -> Sequence[Effect]:
    names = request.subscribed_topic_names
    heartbeat = ShareHeartbeat(
        member_id=MemberId(request.member_id),
        epoch=request.member_epoch,
        topics=tuple(sorted({TopicName(name) for name in names})) if names is not None else None,
        client=context.client,
    )
    if (problem := _problem(request) or heartbeat.problem) is not None:
        refused = ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
        return context.answer(refused)
    return context.core.shares.heartbeat(
        context.connection, context.ticket, GroupId(request.group_id), heartbeat, context.now
    )


def _problem(request: ShareGroupHeartbeatRequest) -> str | None:
    if not request.group_id:
        return "the group id is empty"
    return "the rack id is empty" if request.rack_id == "" else None


def respond(
    context: PoolContext,
    request: ShareGroupHeartbeatRequest,
    result: ShareHeartbeatResult | ShareGroupHeartbeatResponse,
) -> ShareGroupHeartbeatResponse:
    if isinstance(result, ShareGroupHeartbeatResponse):
        return result
    if result.error is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(error_code=result.error)
    assignment = result.assignment
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=round(HEARTBEAT_INTERVAL * 1000),
        assignment=ShareGroupAssignment(
            topic_partitions=tuple(
                TopicIdPartitions(topic_id=context.core.topics.topic_id(name), partitions=tuple(range(count)))
                for name, count in sorted(assignment.items())
            )
        )
        if assignment is not None
        else None,
    )


API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, APIS[ApiKey.SHARE_GROUP_HEARTBEAT], handle, respond)
