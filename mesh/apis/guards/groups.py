"""Guards of requests that members send, and of requests about groups. See `mesh.apis.authorization`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from mesh.apis.api import RequestContext
from mesh.apis.guards.result import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    AuthorizationResult,
    Denied,
    Guard,
    Partial,
    groups_refused,
    hidden_topics,
    may_group,
    may_topic,
    topics_refused,
)
from mesh.security.rules import CLUSTER_NAME, Operation, Refusal, ResourceType
from mesh.wire import messages as m

GROUP_KEY_TYPE: Final = 0


def find_coordinator(context: RequestContext, request: m.FindCoordinatorRequest) -> AuthorizationResult:
    keys = request.coordinator_keys
    refused = {
        key: m.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=GROUP_REFUSED)
        for key in keys
        if request.key_type == GROUP_KEY_TYPE and not may_group(context, Operation.DESCRIBE, key)
    }
    if not refused:
        return None

    def complete(response: m.FindCoordinatorResponse) -> m.FindCoordinatorResponse:
        answered = refused | {each.key: each for each in response.coordinators}
        return replace(response, coordinators=tuple(answered[key] for key in keys))

    allowed = tuple(key for key in keys if key not in refused)
    refusals = tuple(Refusal(Operation.DESCRIBE, ResourceType.GROUP, key) for key in refused)
    return Partial(replace(request, coordinator_keys=allowed), complete, refusals)


def reads_group(refused: m.ResponseMessage) -> Guard:
    """Returns a guard for a request that needs READ on its one group. refused: the response without that permission."""

    def guard(context: RequestContext, request: Any) -> AuthorizationResult:
        if may_group(context, Operation.READ, request.group_id):
            return None
        return Denied(refused, (Refusal(Operation.READ, ResourceType.GROUP, request.group_id),))

    return guard


def describe_groups(context: RequestContext, request: m.DescribeGroupsRequest) -> AuthorizationResult:
    refused = {
        name: m.DescribedGroup(group_id=name, error_code=GROUP_REFUSED)
        for name in request.groups
        if not may_group(context, Operation.DESCRIBE, name)
    }
    if not refused:
        return None

    def complete(response: m.DescribeGroupsResponse) -> m.DescribeGroupsResponse:
        answered = refused | {each.group_id: each for each in response.groups}
        return replace(response, groups=tuple(answered[name] for name in request.groups))

    allowed = replace(request, groups=tuple(name for name in request.groups if name not in refused))
    return Partial(allowed, complete, groups_refused(Operation.DESCRIBE, refused))


def list_groups(context: RequestContext, request: m.ListGroupsRequest) -> AuthorizationResult:
    if context.access.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return Partial(
        request,
        lambda response: replace(
            response,
            groups=tuple(each for each in response.groups if may_group(context, Operation.DESCRIBE, each.group_id)),
        ),
    )


def delete_groups(context: RequestContext, request: m.DeleteGroupsRequest) -> AuthorizationResult:
    refused = {
        name: m.DeletableGroupResult(group_id=name, error_code=GROUP_REFUSED)
        for name in request.groups_names
        if not may_group(context, Operation.DELETE, name)
    }
    if not refused:
        return None

    def complete(response: m.DeleteGroupsResponse) -> m.DeleteGroupsResponse:
        answered = refused | {each.group_id: each for each in response.results}
        return replace(response, results=tuple(answered[name] for name in request.groups_names))

    allowed = replace(request, groups_names=tuple(name for name in request.groups_names if name not in refused))
    return Partial(allowed, complete, groups_refused(Operation.DELETE, refused))


def offset_delete(context: RequestContext, request: m.OffsetDeleteRequest) -> AuthorizationResult:
    if may_group(context, Operation.DELETE, request.group_id):
        return None
    return Denied(
        m.OffsetDeleteResponse(error_code=GROUP_REFUSED), groups_refused(Operation.DELETE, [request.group_id])
    )


def consumer_group_heartbeat(context: RequestContext, request: m.ConsumerGroupHeartbeatRequest) -> AuthorizationResult:
    if not may_group(context, Operation.READ, request.group_id):
        response = m.ConsumerGroupHeartbeatResponse(error_code=GROUP_REFUSED)
        return Denied(response, groups_refused(Operation.READ, [request.group_id]))
    names = request.subscribed_topic_names or ()
    refused = [name for name in names if not may_topic(context, Operation.DESCRIBE, name)]
    if not refused:
        return None
    response = m.ConsumerGroupHeartbeatResponse(error_code=TOPIC_REFUSED)
    return Denied(response, topics_refused(Operation.DESCRIBE, refused))


def consumer_group_describe(context: RequestContext, request: m.ConsumerGroupDescribeRequest) -> AuthorizationResult:
    refused = {
        name: m.DescribedConsumerGroup(group_id=name, error_code=GROUP_REFUSED)
        for name in request.group_ids
        if not may_group(context, Operation.DESCRIBE, name)
    }

    later: list[Refusal] = []

    def visible(group: m.DescribedConsumerGroup) -> m.DescribedConsumerGroup:
        # As in Kafka, a client that may not see one topic of a group learns nothing about the group.
        topics = {each.topic_name for member in group.members for each in member.assignment.topic_partitions}
        topics |= {name for member in group.members for name in member.subscribed_topic_names}
        if not hidden_topics(context, topics, later):
            return group
        return m.DescribedConsumerGroup(
            group_id=group.group_id,
            error_code=TOPIC_REFUSED,
            error_message="The group has described topic(s) that the client is not authorized to describe.",
        )

    def complete(response: m.ConsumerGroupDescribeResponse) -> m.ConsumerGroupDescribeResponse:
        answered = refused | {each.group_id: visible(each) for each in response.groups}
        return replace(response, groups=tuple(answered[name] for name in request.group_ids))

    allowed = replace(request, group_ids=tuple(name for name in request.group_ids if name not in refused))
    return Partial(allowed, complete, groups_refused(Operation.DESCRIBE, refused), later)
