"""Guards of requests about the committed offsets of groups. See `mesh.apis.authorization`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mesh.apis.api import RequestContext
from mesh.apis.guards.result import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    AuthorizationResult,
    Denied,
    Partial,
    may_group,
    may_topic,
    topics_refused,
)
from mesh.security.rules import Operation, Refusal, ResourceType
from mesh.wire import messages as m
from mesh.wire.errors import ErrorCode


def offset_commit(context: RequestContext, request: m.OffsetCommitRequest) -> AuthorizationResult:
    if not may_group(context, Operation.READ, request.group_id):
        response = m.OffsetCommitResponse(topics=_uncommitted(request.topics, GROUP_REFUSED))
        return Denied(response, (Refusal(Operation.READ, ResourceType.GROUP, request.group_id),))
    refused = [topic for topic in request.topics if not may_topic(context, Operation.READ, topic.name)]
    if not refused:
        return None
    responses = _uncommitted(refused, TOPIC_REFUSED)
    refusals = topics_refused(Operation.READ, [topic.name for topic in refused])
    if len(refused) == len(request.topics):
        return Denied(m.OffsetCommitResponse(topics=responses), refusals)
    return Partial(
        replace(request, topics=tuple(topic for topic in request.topics if topic not in refused)),
        lambda response: replace(response, topics=response.topics + responses),
        refusals,
    )


def _uncommitted(topics: Sequence[m.OffsetCommitTopic], error: ErrorCode) -> tuple[m.OffsetCommitTopicResponse, ...]:
    return tuple(
        m.OffsetCommitTopicResponse(
            name=topic.name,
            partitions=tuple(
                m.OffsetCommitPartitionResponse(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ),
        )
        for topic in topics
    )


def offset_fetch(context: RequestContext, request: m.OffsetFetchRequest) -> AuthorizationResult:
    allowed: list[m.OffsetFetchGroup] = []
    refusals: list[Refusal] = []
    closed: dict[str, m.OffsetFetchGroupResponse] = {}
    hidden: dict[str, tuple[m.OffsetFetchTopicResponse, ...]] = {}
    for group in request.groups:
        if not may_group(context, Operation.DESCRIBE, group.group_id):
            refusals.append(Refusal(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))
            # v1 has no error of a group: like a broker, set it on each partition.
            topics = _unfetched(group.topics or (), GROUP_REFUSED) if context.version < 2 else ()
            closed[group.group_id] = m.OffsetFetchGroupResponse(
                group_id=group.group_id, topics=topics, error_code=GROUP_REFUSED
            )
            continue
        refused = [topic for topic in group.topics or () if not may_topic(context, Operation.DESCRIBE, topic.name)]
        if refused:
            hidden[group.group_id] = _unfetched(refused, TOPIC_REFUSED)
            refusals += topics_refused(Operation.DESCRIBE, [topic.name for topic in refused])
            group = replace(group, topics=tuple(topic for topic in group.topics or () if topic not in refused))
        allowed.append(group)

    def visible(group: m.OffsetFetchGroupResponse) -> m.OffsetFetchGroupResponse:
        # A tool that names no topic gets those that it may see.
        topics = tuple(topic for topic in group.topics if may_topic(context, Operation.DESCRIBE, topic.name))
        return replace(group, topics=topics + hidden.get(group.group_id, ()))

    def complete(response: m.OffsetFetchResponse) -> m.OffsetFetchResponse:
        answered = closed | {group.group_id: visible(group) for group in response.groups}
        return replace(response, groups=tuple(answered[group.group_id] for group in request.groups))

    return Partial(replace(request, groups=tuple(allowed)), complete, tuple(refusals))


def _unfetched(topics: Sequence[m.OffsetFetchTopic], error: ErrorCode) -> tuple[m.OffsetFetchTopicResponse, ...]:
    return tuple(
        m.OffsetFetchTopicResponse(
            name=topic.name,
            partitions=tuple(
                m.OffsetFetchPartitionResponse(partition_index=index, committed_offset=-1, error_code=error)
                for index in topic.partition_indexes
            ),
        )
        for topic in topics
    )
