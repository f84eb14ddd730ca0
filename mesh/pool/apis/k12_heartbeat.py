"""Heartbeat: v0-v4

Behaviour:
* A member with the right generation gets NONE, others UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or FENCED_INSTANCE_ID. No
  member ever gets REBALANCE_IN_PROGRESS because of another.

Version notes:
* v3: static members (KIP-345). v4: flexible (KIP-482).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import HeartbeatResult
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.messages import HeartbeatRequest, HeartbeatResponse


def handle(context: PoolContext, request: HeartbeatRequest) -> Sequence[Effect]:
    return context.core.groups.heartbeat(
        context.connection,
        context.ticket,
        GroupId(request.group_id),
        MemberId(request.member_id),
        request.group_instance_id,
        request.generation_id,
        context.now,
    )


def respond(context: PoolContext, request: HeartbeatRequest, result: HeartbeatResult) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=result.error)


API = Api(ApiKey.HEARTBEAT, APIS[ApiKey.HEARTBEAT], handle, respond)
