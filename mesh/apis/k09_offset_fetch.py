"""OffsetFetch: v1-v9

Behaviour:
* Answers where the asking member stands: its slot's committed position, never what was sent (a client that subscribes
  again would lose records), never -1 (auto.offset.reset is never asked). The member is named by its id (v9), or by the
  JoinGroup that came on the same connection.
* A consumer that names a group it has not joined is given a slot of its own in that group's pool (assign() mode).

Version notes:
* v2: null topics mean all topics with a committed offset - none are listed: that is what tools ask, and a virtual
  offset says nothing to them; the upstream group has the true ones. v6: flexible (KIP-482).
* v7: require_stable (KIP-447) - ignored, nothing is pending. v8: several groups (KIP-709).
* v9: member id and epoch (KIP-848).

Ignored: require_stable, member_epoch.
"""

from __future__ import annotations

from mesh.apis.api import Api, Context, as_it_is
from mesh.pool.effects import Effect, GroupId
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


def handle(context: Context, request: OffsetFetchRequest) -> list[Effect]:
    effects: list[Effect] = []
    groups = tuple(_group(context, group, effects) for group in request.groups)
    return effects + context.answer(OffsetFetchResponse(groups=groups))


def _group(context: Context, group: OffsetFetchGroup, effects: list[Effect]) -> OffsetFetchGroupResponse:
    if not group.topics:
        error = context.cluster.rules.refusal(group.group_id)
        return OffsetFetchGroupResponse(group_id=group.group_id, topics=(), error_code=error)
    names = [(TopicName(topic.name), index) for topic in group.topics for index in topic.partition_indexes]
    committed, followed = context.cluster.committed_offsets(
        context.connection, context.client_id, GroupId(group.group_id), group.member_id or "", names, context.now
    )
    effects.extend(followed)
    refused = (committed.error, -1)
    topics = tuple(
        OffsetFetchTopicResponse(
            name=topic.name,
            partitions=tuple(
                OffsetFetchPartitionResponse(partition_index=index, error_code=error, committed_offset=offset)
                for index in topic.partition_indexes
                for error, offset in [committed.offsets.get((TopicName(topic.name), index), refused)]
            ),
        )
        for topic in group.topics
    )
    return OffsetFetchGroupResponse(group_id=group.group_id, topics=topics, error_code=committed.error)


API = Api(ApiKey.OFFSET_FETCH, APIS[ApiKey.OFFSET_FETCH], handle, as_it_is)
