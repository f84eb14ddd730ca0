"""DescribeShareGroupOffsets: v0-v1

Behaviour:
* Returns the lowest offset that is not settled, as stored in the upstream group: for each named partition, or, if none
  is named, for each with a committed offset. It is -1 for a partition without a committed offset.
* An unknown group has no offsets, which is not an error.

Version notes:
* v1: the lag (KIP-1226): the records from that offset on that are not settled. -1 for a partition that is not assigned
  to this process now.

Ignored: nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from mesh.apis.api import Api
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import ask_for_groups, committed, notice
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import CommittedUpstream
from mesh.pool.common.results import TopicPartition
from mesh.pool.inspection import unsettled_of
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareOffsetsGroup,
    ShareOffsetsGroupResponse,
    ShareOffsetsPartitionResponse,
    ShareOffsetsTopicResponse,
)


def handle(context: PoolContext, request: DescribeShareGroupOffsetsRequest) -> Sequence[Effect]:
    notice(context)
    return ask_for_groups(context, [each.group_id for each in request.groups])


def respond(
    context: PoolContext, request: DescribeShareGroupOffsetsRequest, result: CommittedUpstream
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=tuple(_group(context, each, result) for each in request.groups))


def _group(context: PoolContext, asked: ShareOffsetsGroup, found: CommittedUpstream) -> ShareOffsetsGroupResponse:
    error, offsets = committed(context, asked.group_id, found)
    if error is not ErrorCode.NONE:
        return ShareOffsetsGroupResponse(group_id=asked.group_id, error_code=error)
    wanted = offsets if asked.topics is None else _named(asked)
    topics: dict[TopicName, list[int]] = defaultdict(list)
    for name, number in sorted(wanted):
        topics[name].append(number)
    return ShareOffsetsGroupResponse(
        group_id=asked.group_id,
        topics=tuple(
            ShareOffsetsTopicResponse(
                topic_name=name,
                topic_id=context.core.topics.topic_id(name),
                partitions=tuple(_partition(context, asked.group_id, (name, number), offsets) for number in numbers),
            )
            for name, numbers in topics.items()
        ),
    )


def _named(asked: ShareOffsetsGroup) -> Iterable[TopicPartition]:
    return [(TopicName(topic.topic_name), number) for topic in asked.topics or () for number in topic.partitions]


def _partition(
    context: PoolContext, group: str, where: TopicPartition, offsets: Mapping[TopicPartition, int]
) -> ShareOffsetsPartitionResponse:
    source = context.core.topics.partition(*where)
    if source is None:
        return ShareOffsetsPartitionResponse(
            partition_index=where[1], error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, leader_epoch=-1
        )
    pool = context.core.pools.get(GroupId(group))
    partition = pool.partitions.get(source) if pool is not None else None
    lag = unsettled_of(partition) if partition is not None else -1
    return ShareOffsetsPartitionResponse(partition_index=where[1], start_offset=offsets.get(where, -1), lag=lag)


API = Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, APIS[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS], handle, respond)
