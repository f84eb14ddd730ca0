"""ShareGroupDescribe: v1-v1

Behaviour:
* Only the coordinator's node describes groups. Other nodes answer NOT_COORDINATOR.
* Describes a pool that has, or had, share members (KIP-932), with those members only. Each is assigned every partition
  of its topics. A group without a pool is Empty if it had share members, or has committed offsets upstream. Any other
  group gets GROUP_ID_NOT_FOUND.
* While the store is being read a group without share members here gets COORDINATOR_LOAD_IN_PROGRESS.

Version notes:
* v1: the first version. v0 was for early access in Kafka 4.0.

Ignored: include_authorized_operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import ask_for_groups, committed, notice, refusal, refusal_to_describe
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import CommittedUpstream
from mesh.pool.inspection import share_members, state_of_share_group
from mesh.pool.pool import Pool
from mesh.pool.state.member import Member
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    DescribedAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedTopicPartitions,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(context: PoolContext, request: ShareGroupDescribeRequest) -> Sequence[Effect]:
    notice(context)
    if not context.is_at_coordinator:
        groups = (
            DescribedShareGroup(group_id=name, error_code=refusal_to_describe(context, name))
            for name in request.group_ids
        )
        return context.answer(ShareGroupDescribeResponse(groups=tuple(groups)))
    known = {*context.core.pools, *context.core.kept_share_groups.groups()}
    return ask_for_groups(context, [name for name in request.group_ids if GroupId(name) not in known])


def respond(
    context: PoolContext, request: ShareGroupDescribeRequest, result: ShareGroupDescribeResponse | CommittedUpstream
) -> ShareGroupDescribeResponse:
    if isinstance(result, ShareGroupDescribeResponse):
        return result
    return ShareGroupDescribeResponse(groups=tuple(_group(context, name, result) for name in request.group_ids))


def _group(context: PoolContext, name: str, found: CommittedUpstream) -> DescribedShareGroup:
    if (error := refusal(context, name)) is not ErrorCode.NONE:
        return DescribedShareGroup(group_id=name, error_code=error)
    pool = context.core.pools.get(GroupId(name))
    if pool is not None and pool.serving.has_share_members:
        memberships = pool.coordinator.members.values()
        epoch = max((each.generation for each in memberships if each.is_share), default=0)
        return DescribedShareGroup(
            group_id=name,
            group_state=state_of_share_group(pool),
            group_epoch=epoch,
            assignment_epoch=epoch,
            assignor_name="kafka-mesh",
            members=tuple(_member(context, pool, member) for member in share_members(pool)),
        )
    if context.core.kept_share_groups.is_loading:
        return DescribedShareGroup(group_id=name, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    empty = DescribedShareGroup(group_id=name, group_state="Empty", assignor_name="kafka-mesh")
    if pool is None and GroupId(name) in context.core.kept_share_groups.groups():
        return empty
    error, offsets = committed(context, name, found) if pool is None else (ErrorCode.NONE, {})
    if error is not ErrorCode.NONE:
        return DescribedShareGroup(group_id=name, error_code=error)
    if offsets:
        return empty
    message = f"Group {name} not found." if pool is None else f"Group {name} is not a share group."
    return DescribedShareGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def _member(context: PoolContext, pool: Pool, member: Member) -> DescribedShareMember:
    membership = pool.coordinator.members.get(member.id)
    subscription = membership.subscription if membership is not None else None
    topics = context.core.topics
    return DescribedShareMember(
        member_id=member.name,
        member_epoch=membership.generation if membership is not None else 0,
        client_id=member.client.id,
        client_host=f"/{member.client.host}",
        subscribed_topic_names=subscription.topics if subscription is not None else (),
        assignment=DescribedAssignment(
            topic_partitions=tuple(
                DescribedTopicPartitions(
                    topic_id=topics.topic_id(name), topic_name=name, partitions=tuple(range(count))
                )
                for name, count in (subscription.assigned.items() if subscription is not None else ())
            )
        ),
    )


API = Api(ApiKey.SHARE_GROUP_DESCRIBE, APIS[ApiKey.SHARE_GROUP_DESCRIBE], handle, respond)
