"""OffsetFetch: v1-v9

Behaviour:
* Returns the position of the member: the committed position of its slot. It is never the end of the sent records, or a
  client that subscribes again would lose some. It is never -1, so auto.offset.reset never applies. The member is named
  by its id (v9), or by the JoinGroup on the same connection.
* A tool (mesh/pool/identity/tools.py) gets the group's upstream committed offsets, as ListOffsets gives it the ends of
  the upstream logs; -1 for a partition without. For a cluster that does not answer, it gets the offsets that the pool
  knows. This does not apply to a request that names a member, as its client may have the name of a tool.
* A consumer that names a group it has not joined gets a slot in the pool of that group (assign() mode). A client that
  may only describe the group gets the answer for tools: with a slot it could take the records of the group.

Version notes:
* v2: null topics mean all topics with a committed offset; only tools use it. v6: flexible (KIP-482).
* v7: require_stable (KIP-447) - ignored, nothing is pending. v8: several groups (KIP-709).
* v9: member id and epoch (KIP-848): UNKNOWN_MEMBER_ID for an unknown member, STALE_MEMBER_EPOCH for a member of the
  consumer protocol with another epoch.

Ignored: require_stable, the generation of a member of the classic protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.apis.api import Api
from mesh.apis.authorization import may_take_part
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import ask_for_groups, committed, is_tool, notice
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import CommittedUpstream
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.messages import (
    OffsetFetchGroup,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)


def handle(context: PoolContext, request: OffsetFetchRequest) -> Sequence[Effect]:
    if any(group.topics is None for group in request.groups):
        notice(context)
    looks_only = any(group.topics is None or not may_take_part(context, group.group_id) for group in request.groups)
    is_members = any(group.member_id for group in request.groups)
    if looks_only or (is_tool(context) and not is_members):
        return ask_for_groups(context, [group.group_id for group in request.groups])
    effects: list[Effect] = []
    groups = tuple(_group(context, group, effects) for group in request.groups)
    return effects + context.answer(OffsetFetchResponse(groups=groups))


def _group(context: PoolContext, group: OffsetFetchGroup, effects: list[Effect]) -> OffsetFetchGroupResponse:
    if not group.topics:
        error = context.core.rules.refusal(group.group_id)
        return OffsetFetchGroupResponse(group_id=group.group_id, topics=(), error_code=error)
    names = [(TopicName(topic.name), index) for topic in group.topics for index in topic.partition_indexes]
    standing, followed = context.core.committed_offsets(
        context.connection,
        context.client_id,
        GroupId(group.group_id),
        group.member_id or "",
        names,
        context.now,
        group.member_epoch,
    )
    effects.extend(followed)
    refused = (standing.error, -1)
    topics = tuple(
        OffsetFetchTopicResponse(
            name=topic.name,
            partitions=tuple(
                OffsetFetchPartitionResponse(partition_index=index, error_code=error, committed_offset=offset)
                for index in topic.partition_indexes
                for error, offset in [standing.offsets.get((TopicName(topic.name), index), refused)]
            ),
        )
        for topic in group.topics
    )
    return OffsetFetchGroupResponse(group_id=group.group_id, topics=topics, error_code=standing.error)


def respond(
    context: PoolContext, request: OffsetFetchRequest, result: OffsetFetchResponse | CommittedUpstream
) -> OffsetFetchResponse:
    if isinstance(result, OffsetFetchResponse):
        return result
    return OffsetFetchResponse(groups=tuple(_of_upstream(context, group, result) for group in request.groups))


def _of_upstream(context: PoolContext, group: OffsetFetchGroup, found: CommittedUpstream) -> OffsetFetchGroupResponse:
    error, offsets = committed(context, group.group_id, found)
    topics: dict[str, list[int]] = {}
    if group.topics is not None:
        topics = {topic.name: list(topic.partition_indexes) for topic in group.topics}
    else:
        for name, index in sorted(offsets):
            topics.setdefault(name, []).append(index)
    return OffsetFetchGroupResponse(
        group_id=group.group_id,
        topics=tuple(
            OffsetFetchTopicResponse(
                name=name,
                partitions=tuple(
                    OffsetFetchPartitionResponse(
                        partition_index=index, committed_offset=offsets.get((TopicName(name), index), -1)
                    )
                    for index in indexes
                ),
            )
            for name, indexes in topics.items()
        ),
        error_code=error,
    )


API = Api(ApiKey.OFFSET_FETCH, APIS[ApiKey.OFFSET_FETCH], handle, respond)
