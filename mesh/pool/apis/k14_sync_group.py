"""SyncGroup: v0-v5

Behaviour:
* Returns the assignment that the member, as the leader of a group of one, has made for itself.
* Checks are in Kafka's order: member, instance, generation, protocol.

Version notes:
* v3: static members (KIP-345). v4: flexible (KIP-482).
* v5: protocol type and name (KIP-559), checked against the JoinGroup of the member; null gets
  INCONSISTENT_GROUP_PROTOCOL before any other check, as on a broker.

Ignored: assignments to other members.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import SyncResult
from mesh.pool.groups.membership import SyncRequest
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(context: PoolContext, request: SyncGroupRequest) -> Sequence[Effect]:
    unnamed = request.protocol_type is None or request.protocol_name is None
    if context.version >= FIRST_VERSION_WITH_PROTOCOL and unnamed:
        return [Answer(context.ticket, SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))]
    own = [item.assignment for item in request.assignments if item.member_id == request.member_id]
    sync = SyncRequest(
        member_id=MemberId(request.member_id),
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=own[0] if own else None,
    )
    return context.core.groups.sync(context.connection, context.ticket, GroupId(request.group_id), sync, context.now)


def respond(context: PoolContext, request: SyncGroupRequest, result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


API = Api(ApiKey.SYNC_GROUP, APIS[ApiKey.SYNC_GROUP], handle, respond)
