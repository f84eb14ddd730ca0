"""JoinGroup: v0-v9

Behaviour:
* The answer comes after a short delay (join_delay), with a group of one: the member is the leader and the only member.
  The generation rises with each join of the same member. A member that joins again knows its topics, so its answer
  comes at once.
* The protocol type must be "consumer". Any other gets INCONSISTENT_GROUP_PROTOCOL.

Version notes:
* v1: rebalance timeout. v4: a dynamic member first gets an id (MEMBER_ID_REQUIRED, KIP-394).
* v5: static members (KIP-345); a second member with the same instance id fences the first. v6: flexible (KIP-482).
* v7: protocol type and name in the answer (KIP-559). v8: a reason (KIP-800) - ignored.
* v9: skip_assignment (KIP-814) - always false.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import JoinResult
from mesh.pool.groups.membership import JoinRequest
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import JoinGroupMember, JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4


def handle(context: PoolContext, request: JoinGroupRequest) -> Sequence[Effect]:
    session_timeout = request.session_timeout_ms / 1000
    join = JoinRequest(
        member_id=MemberId(request.member_id),
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        session_timeout=session_timeout,
        rebalance_timeout=request.rebalance_timeout_ms / 1000 if request.rebalance_timeout_ms > 0 else session_timeout,
        must_know_id=context.version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED,
        client=context.client,
    )
    return context.core.groups.join(context.connection, context.ticket, GroupId(request.group_id), join, context.now)


def respond(context: PoolContext, request: JoinGroupRequest, result: JoinResult) -> JoinGroupResponse:
    if result.error is not ErrorCode.NONE:
        return JoinGroupResponse(error_code=result.error, member_id=result.member_id)
    return JoinGroupResponse(
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        leader=result.member_id,
        member_id=result.member_id,
        members=(
            JoinGroupMember(
                member_id=result.member_id, group_instance_id=result.instance_id, metadata=result.subscription
            ),
        ),
    )


API = Api(ApiKey.JOIN_GROUP, APIS[ApiKey.JOIN_GROUP], handle, respond)
