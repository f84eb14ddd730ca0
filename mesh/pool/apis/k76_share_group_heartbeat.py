"""ShareGroupHeartbeat: v1-v1

Behaviour:
* With it a share member (KIP-932) joins (epoch 0), shows that it is alive, and leaves (-1). It is assigned every
  partition of the topics it subscribes to. Members of other kinds may be in the same pool.
* The member's epoch rises when its assignment changes and when it joins again. Another epoch gets FENCED_MEMBER_EPOCH,
  unless an answer was lost. An unknown member, or one of an unknown group, gets UNKNOWN_MEMBER_ID.
* Leaving does not release the acquired records; the end of the share session does.

Version notes:
* v1: the first version. v0 was for early access in Kafka 4.0, and brokers made the member ids.

Ignored: rack_id (every member is assigned all partitions).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.assignments import topic_partitions
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
        assignment=ShareGroupAssignment(topic_partitions=topic_partitions(context, assignment))
        if assignment is not None
        else None,
    )


API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, APIS[ApiKey.SHARE_GROUP_HEARTBEAT], handle, respond)
