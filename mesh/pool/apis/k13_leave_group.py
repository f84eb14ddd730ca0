"""LeaveGroup: v0-v5

Behaviour:
* In the same step the records that the member holds return to the front of their partitions, for other members.

Version notes:
* v3: several members, static ones by their instance id (KIP-345). v4: flexible (KIP-482).
* v5: a reason (KIP-800) - ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import LeaveResult
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.messages import LeaveGroupMemberResponse, LeaveGroupRequest, LeaveGroupResponse


def handle(context: PoolContext, request: LeaveGroupRequest) -> Sequence[Effect]:
    members = tuple((member.member_id, member.group_instance_id) for member in request.members)
    group = GroupId(request.group_id)
    return context.core.groups.leave(context.connection, context.ticket, group, members, context.now)


def respond(context: PoolContext, request: LeaveGroupRequest, result: LeaveResult) -> LeaveGroupResponse:
    members = tuple(
        LeaveGroupMemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
        for member_id, instance_id, error in result.members
    )
    return LeaveGroupResponse(members=members)


API = Api(ApiKey.LEAVE_GROUP, APIS[ApiKey.LEAVE_GROUP], handle, respond)
