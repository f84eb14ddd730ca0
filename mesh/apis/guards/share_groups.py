"""Guards of requests of share members. See `mesh.apis.authorization`.

A request names only the new partitions of a session. So the handler checks READ for each partition of the session.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.apis.api import RequestContext
from mesh.apis.guards.result import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    AuthorizationResult,
    Denied,
    Partial,
    groups_refused,
    hidden_topics,
    may_group,
    may_topic,
    topics_refused,
)
from mesh.security.rules import Operation, Refusal
from mesh.wire import messages as m


def share_group_heartbeat(context: RequestContext, request: m.ShareGroupHeartbeatRequest) -> AuthorizationResult:
    if not may_group(context, Operation.READ, request.group_id):
        response = m.ShareGroupHeartbeatResponse(error_code=GROUP_REFUSED)
        return Denied(response, groups_refused(Operation.READ, [request.group_id]))
    names = request.subscribed_topic_names or ()
    refused = [name for name in names if not may_topic(context, Operation.DESCRIBE, name)]
    if not refused:
        return None
    response = m.ShareGroupHeartbeatResponse(error_code=TOPIC_REFUSED)
    return Denied(response, topics_refused(Operation.DESCRIBE, refused))


def share_fetch(context: RequestContext, request: m.ShareFetchRequest) -> AuthorizationResult:
    group = request.group_id or ""
    if may_group(context, Operation.READ, group):
        return None
    return Denied(m.ShareFetchResponse(error_code=GROUP_REFUSED), groups_refused(Operation.READ, [group]))


def share_acknowledge(context: RequestContext, request: m.ShareAcknowledgeRequest) -> AuthorizationResult:
    group = request.group_id or ""
    if may_group(context, Operation.READ, group):
        return None
    return Denied(m.ShareAcknowledgeResponse(error_code=GROUP_REFUSED), groups_refused(Operation.READ, [group]))


def share_group_describe(context: RequestContext, request: m.ShareGroupDescribeRequest) -> AuthorizationResult:
    refused = {
        name: m.DescribedShareGroup(group_id=name, error_code=GROUP_REFUSED)
        for name in request.group_ids
        if not may_group(context, Operation.DESCRIBE, name)
    }

    later: list[Refusal] = []

    def visible(group: m.DescribedShareGroup) -> m.DescribedShareGroup:
        # As in Kafka, a client that may not see one topic of a group learns nothing about the group.
        topics = {each.topic_name for member in group.members for each in member.assignment.topic_partitions}
        topics |= {name for member in group.members for name in member.subscribed_topic_names}
        if not hidden_topics(context, topics, later):
            return group
        return m.DescribedShareGroup(
            group_id=group.group_id,
            error_code=TOPIC_REFUSED,
            error_message="The group has described topic(s) that the client is not authorized to describe.",
        )

    def complete(response: m.ShareGroupDescribeResponse) -> m.ShareGroupDescribeResponse:
        answered = refused | {each.group_id: visible(each) for each in response.groups}
        return replace(response, groups=tuple(answered[name] for name in request.group_ids))

    allowed = replace(request, group_ids=tuple(name for name in request.group_ids if name not in refused))
    return Partial(allowed, complete, groups_refused(Operation.DESCRIBE, refused), later)


def describe_share_group_offsets(
    context: RequestContext, request: m.DescribeShareGroupOffsetsRequest
) -> AuthorizationResult:
    refused = [each for each in request.groups if not may_group(context, Operation.DESCRIBE, each.group_id)]

    later: list[Refusal] = []

    def visible(group: m.ShareOffsetsGroupResponse) -> m.ShareOffsetsGroupResponse:
        topics = tuple(
            replace(topic, partitions=tuple(map(_unseen, topic.partitions)))
            if hidden_topics(context, [topic.topic_name], later)
            else topic
            for topic in group.topics
        )
        return replace(group, topics=topics)

    def complete(response: m.DescribeShareGroupOffsetsResponse) -> m.DescribeShareGroupOffsetsResponse:
        answered = [
            *map(visible, response.groups),
            *(m.ShareOffsetsGroupResponse(group_id=each.group_id, error_code=GROUP_REFUSED) for each in refused),
        ]
        return replace(response, groups=tuple(answered))

    allowed = replace(request, groups=tuple(each for each in request.groups if each not in refused))
    return Partial(allowed, complete, groups_refused(Operation.DESCRIBE, [each.group_id for each in refused]), later)


def _unseen(partition: m.ShareOffsetsPartitionResponse) -> m.ShareOffsetsPartitionResponse:
    return m.ShareOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=TOPIC_REFUSED)


def alter_share_group_offsets(context: RequestContext, request: m.AlterShareGroupOffsetsRequest) -> AuthorizationResult:
    if not may_group(context, Operation.READ, request.group_id):
        response = m.AlterShareGroupOffsetsResponse(error_code=GROUP_REFUSED)
        return Denied(response, groups_refused(Operation.READ, [request.group_id]))
    refused = [each for each in request.topics if not may_topic(context, Operation.READ, each.topic_name)]
    if not refused:
        return None
    responses = tuple(
        m.AlteredShareOffsetsTopic(
            topic_name=topic.topic_name,
            topic_id=None,
            partitions=tuple(
                m.AlteredShareOffset(partition_index=each.partition_index, error_code=TOPIC_REFUSED)
                for each in topic.partitions
            ),
        )
        for topic in refused
    )
    return Partial(
        replace(request, topics=tuple(each for each in request.topics if each not in refused)),
        lambda response: replace(response, responses=response.responses + responses),
        topics_refused(Operation.READ, [each.topic_name for each in refused]),
    )


def delete_share_group_offsets(
    context: RequestContext, request: m.DeleteShareGroupOffsetsRequest
) -> AuthorizationResult:
    if not may_group(context, Operation.DELETE, request.group_id):
        response = m.DeleteShareGroupOffsetsResponse(error_code=GROUP_REFUSED)
        return Denied(response, groups_refused(Operation.DELETE, [request.group_id]))
    refused = [each.topic_name for each in request.topics if not may_topic(context, Operation.READ, each.topic_name)]
    if not refused:
        return None
    responses = tuple(
        m.DeletedShareOffsetsTopic(topic_name=name, topic_id=None, error_code=TOPIC_REFUSED) for name in refused
    )
    return Partial(
        replace(request, topics=tuple(each for each in request.topics if each.topic_name not in refused)),
        lambda response: replace(response, responses=response.responses + responses),
        topics_refused(Operation.READ, refused),
    )
