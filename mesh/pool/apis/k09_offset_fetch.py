"""OffsetFetch: v1-v9

Behaviour:
* Answers where the asking member stands: its slot's committed position, never what was sent (a client that subscribes
  again would lose records), never -1 (auto.offset.reset is never asked). The member is named by its id (v9), or by the
  JoinGroup that came on the same connection.
* A tool (mesh/pool/identity/tools.py) is answered with what the group has committed upstream, as ListOffsets answers it
  with the ends of the upstream logs; but not where a member is named, whose client may share its name with a tool. -1
  for a partition without; of a cluster that does not answer, what its pool knows.
* A consumer that names a group it has not joined is given a slot of its own in that group's pool (assign() mode). One
  that may only describe the group is answered like a tool: a slot would let it take the records of that group.

Version notes:
* v2: null topics mean all topics with a committed offset: only tools ask that. v6: flexible (KIP-482).
* v7: require_stable (KIP-447) - ignored, nothing is pending. v8: several groups (KIP-709).
* v9: member id and epoch (KIP-848): UNKNOWN_MEMBER_ID for one that is not known, STALE_MEMBER_EPOCH for another epoch
  than that of a member of the consumer protocol.

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
