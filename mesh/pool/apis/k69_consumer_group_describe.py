"""ConsumerGroupDescribe: v0-v1

Behaviour:
* Only the coordinator's node describes groups. Other nodes answer NOT_COORDINATOR.
* Describes a pool that has a member of the consumer protocol (KIP-848), with its classic members. Any other group gets
  GROUP_ID_NOT_FOUND, and tools then use DescribeGroups.
* Each partition is shown with one member, as in DescribeGroups.

Version notes:
* v1: the protocol of each member (KIP-1099).

Ignored: include_authorized_operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice, refusal_to_describe
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import TopicPartition
from mesh.pool.inspection import attributed, is_consumer_group, state_of
from mesh.pool.pool import Pool
from mesh.pool.state.member import Member
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def handle(context: PoolContext, request: ConsumerGroupDescribeRequest) -> Sequence[Effect]:
    notice(context)
    groups = tuple(_group(context, name) for name in request.group_ids)
    return context.answer(ConsumerGroupDescribeResponse(groups=groups))


def _group(context: PoolContext, name: str) -> DescribedConsumerGroup:
    if (error := refusal_to_describe(context, name)) is not ErrorCode.NONE:
        return DescribedConsumerGroup(group_id=name, error_code=error)
    pool = context.core.pools.get(GroupId(name))
    if pool is None or not is_consumer_group(pool):
        # Java's tools show this message, not that of DescribeGroups, which they send next.
        message = f"Group {name} not found." if pool is None else f"Group {name} is not a consumer group."
        return DescribedConsumerGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    epoch = max(membership.generation for membership in pool.coordinator.members.values())
    return DescribedConsumerGroup(
        group_id=name,
        group_state=state_of(pool),
        group_epoch=epoch,
        assignment_epoch=epoch,
        assignor_name="kafka-mesh",
        members=tuple(
            _member(context, pool, member, numbers) for member, numbers in attributed(pool, context.core.topics).items()
        ),
    )


def _member(context: PoolContext, pool: Pool, member: Member, numbers: Iterable[TopicPartition]) -> DescribedConsumer:
    membership = pool.coordinator.members.get(member.id)
    subscription = membership.subscription if membership is not None else None
    assignment = _assignment(context, numbers)
    return DescribedConsumer(
        member_id=member.name,
        instance_id=member.instance_id,
        member_epoch=membership.generation if membership is not None else 0,
        client_id=member.client.id,
        client_host=f"/{member.client.host}",
        subscribed_topic_names=subscription.topics if subscription is not None else (),
        subscribed_topic_regex=(subscription.pattern or None) if subscription is not None else None,
        assignment=assignment,
        target_assignment=assignment,
        member_type=CLASSIC_MEMBER if subscription is None else CONSUMER_MEMBER,
    )


def _assignment(context: PoolContext, numbers: Iterable[TopicPartition]) -> DescribedAssignment:
    topics: dict[TopicName, list[int]] = defaultdict(list)
    for name, index in numbers:
        topics[name].append(index)
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedTopicPartitions(
                topic_id=context.core.topics.topic_id(name), topic_name=name, partitions=tuple(indexes)
            )
            for name, indexes in topics.items()
        )
    )


API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, APIS[ApiKey.CONSUMER_GROUP_DESCRIBE], handle, as_it_is)
