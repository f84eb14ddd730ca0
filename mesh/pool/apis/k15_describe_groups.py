"""DescribeGroups: v0-v6

Behaviour:
* Only the coordinator's node describes groups. Other nodes answer NOT_COORDINATOR.
* Lists the members of a pool, with those that fetch without having joined. Each partition is shown with one member, so
  that a tool that adds up lag counts it once: with the member that holds up the committed offset, else with one of
  those that fetch it, in turn. In fact every member may have records of every partition.
* A pool is Stable while it has members. A group without a pool is Empty if it has committed offsets upstream. Otherwise
  it is Dead up to v5, and gets GROUP_ID_NOT_FOUND from v6 on.
* Members of the consumer protocol (KIP-848) are listed, too: not every tool knows ConsumerGroupDescribe.

Version notes:
* v3: authorized operations (KIP-430) - never given. v4: static members (KIP-345). v5: flexible (KIP-482).
* v6: GROUP_ID_NOT_FOUND, with a message (KIP-1043).

Ignored: include_authorized_operations.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import ask_for_groups, committed, notice, refusal, refusal_to_describe
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import CommittedUpstream
from mesh.pool.common.results import TopicPartition
from mesh.pool.groups.membership import CONSUMER_PROTOCOL
from mesh.pool.inspection import attributed, state_of
from mesh.pool.pool import Pool
from mesh.pool.state.member import Member
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_NOT_FOUND = 6


def handle(context: PoolContext, request: DescribeGroupsRequest) -> Sequence[Effect]:
    notice(context)
    if not context.is_at_coordinator:
        return context.answer(_elsewhere(context, request))
    return ask_for_groups(context, [group for group in request.groups if GroupId(group) not in context.core.pools])


def respond(
    context: PoolContext, request: DescribeGroupsRequest, result: DescribeGroupsResponse | CommittedUpstream
) -> DescribeGroupsResponse:
    if isinstance(result, DescribeGroupsResponse):
        return result
    return DescribeGroupsResponse(groups=tuple(_group(context, group, result) for group in request.groups))


def _elsewhere(context: PoolContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = (DescribedGroup(group_id=name, error_code=refusal_to_describe(context, name)) for name in request.groups)
    return DescribeGroupsResponse(groups=tuple(groups))


def _group(context: PoolContext, name: str, found: CommittedUpstream) -> DescribedGroup:
    if (error := refusal(context, name)) is not ErrorCode.NONE:
        return DescribedGroup(group_id=name, error_code=error)
    pool = context.core.pools.get(GroupId(name))
    if pool is not None:
        shares = attributed(pool, context.core.topics)
        return DescribedGroup(
            group_id=name,
            group_state=state_of(pool),
            protocol_type=CONSUMER_PROTOCOL,
            protocol_data="kafka-mesh",
            members=tuple(_member(pool, member, numbers) for member, numbers in shares.items()),
        )
    error, offsets = committed(context, name, found)
    if error is not ErrorCode.NONE:
        return DescribedGroup(group_id=name, error_code=error)
    if offsets:
        return DescribedGroup(group_id=name, group_state=state_of(None), protocol_type=CONSUMER_PROTOCOL)
    if context.version < FIRST_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(group_id=name, group_state="Dead")
    message = f"Group {name} not found."
    return DescribedGroup(
        group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_state="Dead"
    )


def _member(pool: Pool, member: Member, numbers: Iterable[TopicPartition]) -> DescribedGroupMember:
    membership = pool.coordinator.members.get(member.id)
    protocols = membership.request.protocols if membership is not None else ()
    return DescribedGroupMember(
        member_id=member.name,
        group_instance_id=member.instance_id,
        client_id=member.client.id,
        client_host=f"/{member.client.host}",
        member_metadata=protocols[0][1] if protocols else b"",
        member_assignment=_assignment(numbers),
    )


def _assignment(numbers: Iterable[TopicPartition]) -> bytes:
    """Encodes a ConsumerProtocolAssignment v0, as consumers put it into SyncGroup."""
    topics: dict[str, list[int]] = defaultdict(list)
    for name, index in numbers:
        topics[name].append(index)
    parts = [struct.pack(">hi", 0, len(topics))]
    for topic, indexes in topics.items():
        text = topic.encode()
        parts += [struct.pack(">h", len(text)), text, struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join([*parts, struct.pack(">i", -1)])


API = Api(ApiKey.DESCRIBE_GROUPS, APIS[ApiKey.DESCRIBE_GROUPS], handle, respond)
