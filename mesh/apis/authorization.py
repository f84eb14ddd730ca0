"""Which part of a request its client may make: the one place where rules are asked. Handlers see only what is allowed.

`GUARDS` has a line for every API (a test says so if one is missing). A guard asks `context.access.allows(operation,
resource type, name)` and returns

* None: nothing of it is refused;
* `Denied`: all of it is, and this is the answer; no handler is asked;
* `Narrowed`: the request without what is refused, and how to put the refused parts into the handler's answer. That is
  also how an answer is filtered which lists what a client may not see: such parts are no refusals.

What needs which operation on what, and which error that costs, is Kafka's (KafkaApis). A new handler: add its guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mesh.apis.api import Context
from mesh.security.rules import CLUSTER_NAME, Operation, ResourceType
from mesh.wire import messages as m
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode

TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
GROUP_KEY_TYPE: Final = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a client asked for and may not have; for the audit log."""

    operation: Operation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Denied:
    response: m.ResponseMessage
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """complete: the answer of the handler to the one the client gets."""

    request: m.RequestMessage
    complete: Callable[[Any], m.ResponseMessage]
    refusals: tuple[Refusal, ...] = ()


Verdict: TypeAlias = Denied | Narrowed | None
Guard: TypeAlias = Callable[[Context, Any], Verdict]


def authorize(api_key: ApiKey, context: Context, request: m.RequestMessage) -> Verdict:
    """What of the request is allowed; None for all of it."""
    return None if context.access.is_unlimited else GUARDS[api_key](context, request)


def _topic(context: Context, operation: Operation, name: str) -> bool:
    return context.access.allows(operation, ResourceType.TOPIC, name)


def _group(context: Context, operation: Operation, name: str) -> bool:
    return context.access.allows(operation, ResourceType.GROUP, name)


def may_take_part(context: Context, group: str) -> bool:
    """Whether the client may be given records as one of this group; who may only describe it may look."""
    return _group(context, Operation.READ, group)


def _topics_refused(operation: Operation, names: Sequence[str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(operation, ResourceType.TOPIC, name) for name in names)


def _everything(context: Context, request: m.RequestMessage) -> Verdict:
    return None


def _produce(context: Context, request: m.ProduceRequest) -> Verdict:
    refused = [topic for topic in request.topic_data if not _topic(context, Operation.WRITE, topic.name)]
    if not refused or request.acks == 0:
        return None
    responses = tuple(
        m.ProduceTopicResponse(
            name=topic.name,
            partition_responses=tuple(
                m.ProducePartitionResponse(index=each.index, error_code=TOPIC_REFUSED) for each in topic.partition_data
            ),
        )
        for topic in refused
    )
    return Narrowed(
        replace(request, topic_data=tuple(topic for topic in request.topic_data if topic not in refused)),
        lambda response: replace(response, responses=response.responses + responses),
        _topics_refused(Operation.WRITE, [topic.name for topic in refused]),
    )


def _fetch(context: Context, request: m.FetchRequest) -> Verdict:
    # An id that is not known is no secret: the handler answers it.
    names = [topic.name or _name(context, topic.topic_id) for topic in request.topics]
    refused = [
        (topic, name)
        for topic, name in zip(request.topics, names, strict=True)
        if name is not None and not _topic(context, Operation.READ, name)
    ]
    if not refused:
        return None
    responses = tuple(
        m.FetchTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                m.FetchPartitionResponse(partition=each.partition, error_code=TOPIC_REFUSED)
                for each in topic.partitions
            ),
        )
        for topic, _ in refused
    )
    refusals = _topics_refused(Operation.READ, [name for _, name in refused])
    if len(refused) == len(request.topics):
        return Denied(m.FetchResponse(topics=responses), refusals)
    left = [topic for topic, _ in refused]
    return Narrowed(
        replace(request, topics=tuple(topic for topic in request.topics if topic not in left)),
        lambda response: replace(response, topics=response.topics + responses),
        refusals,
    )


def _list_offsets(context: Context, request: m.ListOffsetsRequest) -> Verdict:
    refused = [topic for topic in request.topics if not _topic(context, Operation.DESCRIBE, topic.name)]
    if not refused:
        return None
    responses = tuple(
        m.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                m.ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=TOPIC_REFUSED)
                for each in topic.partitions
            ),
        )
        for topic in refused
    )
    return Narrowed(
        replace(request, topics=tuple(topic for topic in request.topics if topic not in refused)),
        lambda response: replace(response, topics=response.topics + responses),
        _topics_refused(Operation.DESCRIBE, [topic.name for topic in refused]),
    )


def _metadata(context: Context, request: m.MetadataRequest) -> Verdict:
    if request.topics is None:
        return Narrowed(
            request,
            lambda response: replace(
                response,
                topics=tuple(topic for topic in response.topics if _topic(context, Operation.DESCRIBE, topic.name)),
            ),
        )
    refused: list[m.MetadataTopicResponse] = []
    names: list[str] = []
    allowed: list[m.MetadataTopic] = []
    for topic in request.topics:
        name = topic.name or _name(context, topic.topic_id)
        if name is None or _topic(context, Operation.DESCRIBE, name):
            allowed.append(topic)
            continue
        names.append(name)
        # Ids are no secrets, Kafka says, and names are: each is answered under what it was asked by.
        refused.append(m.MetadataTopicResponse(name=topic.name, topic_id=topic.topic_id, error_code=TOPIC_REFUSED))
    if not refused:
        return None
    return Narrowed(
        replace(request, topics=tuple(allowed)),
        lambda response: replace(response, topics=(*response.topics, *refused)),
        _topics_refused(Operation.DESCRIBE, names),
    )


def _offset_commit(context: Context, request: m.OffsetCommitRequest) -> Verdict:
    if not _group(context, Operation.READ, request.group_id):
        response = m.OffsetCommitResponse(topics=_uncommitted(request.topics, GROUP_REFUSED))
        return Denied(response, (Refusal(Operation.READ, ResourceType.GROUP, request.group_id),))
    refused = [topic for topic in request.topics if not _topic(context, Operation.READ, topic.name)]
    if not refused:
        return None
    responses = _uncommitted(refused, TOPIC_REFUSED)
    refusals = _topics_refused(Operation.READ, [topic.name for topic in refused])
    if len(refused) == len(request.topics):
        return Denied(m.OffsetCommitResponse(topics=responses), refusals)
    return Narrowed(
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


def _offset_fetch(context: Context, request: m.OffsetFetchRequest) -> Verdict:
    allowed: list[m.OffsetFetchGroup] = []
    refusals: list[Refusal] = []
    closed: dict[str, m.OffsetFetchGroupResponse] = {}
    hidden: dict[str, tuple[m.OffsetFetchTopicResponse, ...]] = {}
    for group in request.groups:
        if not _group(context, Operation.DESCRIBE, group.group_id):
            refusals.append(Refusal(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))
            # As a broker does: v1 has no place for the error of a group but its partitions.
            topics = _unfetched(group.topics or (), GROUP_REFUSED) if context.version < 2 else ()
            closed[group.group_id] = m.OffsetFetchGroupResponse(
                group_id=group.group_id, topics=topics, error_code=GROUP_REFUSED
            )
            continue
        refused = [topic for topic in group.topics or () if not _topic(context, Operation.DESCRIBE, topic.name)]
        if refused:
            hidden[group.group_id] = _unfetched(refused, TOPIC_REFUSED)
            refusals += _topics_refused(Operation.DESCRIBE, [topic.name for topic in refused])
            group = replace(group, topics=tuple(topic for topic in group.topics or () if topic not in refused))
        allowed.append(group)

    def visible(group: m.OffsetFetchGroupResponse) -> m.OffsetFetchGroupResponse:
        # A tool that names no topic is told of those that it may see.
        topics = tuple(topic for topic in group.topics if _topic(context, Operation.DESCRIBE, topic.name))
        return replace(group, topics=topics + hidden.get(group.group_id, ()))

    def complete(response: m.OffsetFetchResponse) -> m.OffsetFetchResponse:
        answered = closed | {group.group_id: visible(group) for group in response.groups}
        return replace(response, groups=tuple(answered[group.group_id] for group in request.groups))

    return Narrowed(replace(request, groups=tuple(allowed)), complete, tuple(refusals))


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


def _find_coordinator(context: Context, request: m.FindCoordinatorRequest) -> Verdict:
    keys = request.coordinator_keys
    refused = {
        key: m.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=GROUP_REFUSED)
        for key in keys
        if request.key_type == GROUP_KEY_TYPE and not _group(context, Operation.DESCRIBE, key)
    }
    if not refused:
        return None

    def complete(response: m.FindCoordinatorResponse) -> m.FindCoordinatorResponse:
        answered = refused | {each.key: each for each in response.coordinators}
        return replace(response, coordinators=tuple(answered[key] for key in keys))

    allowed = tuple(key for key in keys if key not in refused)
    refusals = tuple(Refusal(Operation.DESCRIBE, ResourceType.GROUP, key) for key in refused)
    return Narrowed(replace(request, coordinator_keys=allowed), complete, refusals)


def _reads_group(refused: m.ResponseMessage) -> Guard:
    """For a request that needs READ on its one group, and is answered so without."""

    def guard(context: Context, request: Any) -> Verdict:
        if _group(context, Operation.READ, request.group_id):
            return None
        return Denied(refused, (Refusal(Operation.READ, ResourceType.GROUP, request.group_id),))

    return guard


def _describe_groups(context: Context, request: m.DescribeGroupsRequest) -> Verdict:
    refused = {
        name: m.DescribedGroup(group_id=name, error_code=GROUP_REFUSED)
        for name in request.groups
        if not _group(context, Operation.DESCRIBE, name)
    }
    if not refused:
        return None

    def complete(response: m.DescribeGroupsResponse) -> m.DescribeGroupsResponse:
        answered = refused | {each.group_id: each for each in response.groups}
        return replace(response, groups=tuple(answered[name] for name in request.groups))

    allowed = replace(request, groups=tuple(name for name in request.groups if name not in refused))
    return Narrowed(allowed, complete, _groups_refused(Operation.DESCRIBE, refused))


def _list_groups(context: Context, request: m.ListGroupsRequest) -> Verdict:
    if context.access.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return Narrowed(
        request,
        lambda response: replace(
            response,
            groups=tuple(each for each in response.groups if _group(context, Operation.DESCRIBE, each.group_id)),
        ),
    )


def _delete_groups(context: Context, request: m.DeleteGroupsRequest) -> Verdict:
    refused = {
        name: m.DeletableGroupResult(group_id=name, error_code=GROUP_REFUSED)
        for name in request.groups_names
        if not _group(context, Operation.DELETE, name)
    }
    if not refused:
        return None

    def complete(response: m.DeleteGroupsResponse) -> m.DeleteGroupsResponse:
        answered = refused | {each.group_id: each for each in response.results}
        return replace(response, results=tuple(answered[name] for name in request.groups_names))

    allowed = replace(request, groups_names=tuple(name for name in request.groups_names if name not in refused))
    return Narrowed(allowed, complete, _groups_refused(Operation.DELETE, refused))


def _offset_delete(context: Context, request: m.OffsetDeleteRequest) -> Verdict:
    if _group(context, Operation.DELETE, request.group_id):
        return None
    return Denied(
        m.OffsetDeleteResponse(error_code=GROUP_REFUSED), _groups_refused(Operation.DELETE, [request.group_id])
    )


def _consumer_group_heartbeat(context: Context, request: m.ConsumerGroupHeartbeatRequest) -> Verdict:
    if not _group(context, Operation.READ, request.group_id):
        response = m.ConsumerGroupHeartbeatResponse(error_code=GROUP_REFUSED)
        return Denied(response, _groups_refused(Operation.READ, [request.group_id]))
    names = request.subscribed_topic_names or ()
    refused = [name for name in names if not _topic(context, Operation.DESCRIBE, name)]
    if not refused:
        return None
    response = m.ConsumerGroupHeartbeatResponse(error_code=TOPIC_REFUSED)
    return Denied(response, _topics_refused(Operation.DESCRIBE, refused))


def _consumer_group_describe(context: Context, request: m.ConsumerGroupDescribeRequest) -> Verdict:
    refused = {
        name: m.DescribedConsumerGroup(group_id=name, error_code=GROUP_REFUSED)
        for name in request.group_ids
        if not _group(context, Operation.DESCRIBE, name)
    }

    def visible(group: m.DescribedConsumerGroup) -> m.DescribedConsumerGroup:
        # Kafka tells nothing of a group that has a topic which one may not see.
        topics = {each.topic_name for member in group.members for each in member.assignment.topic_partitions}
        topics |= {name for member in group.members for name in member.subscribed_topic_names}
        if all(_topic(context, Operation.DESCRIBE, name) for name in topics):
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
    return Narrowed(allowed, complete, _groups_refused(Operation.DESCRIBE, refused))


def _groups_refused(operation: Operation, names: Iterable[str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(operation, ResourceType.GROUP, name) for name in names)


def _name(context: Context, topic_id: Any) -> str | None:
    return context.cluster.topics.name_of(topic_id) if topic_id is not None else None


GUARDS: Final[Mapping[ApiKey, Guard]] = MappingProxyType(
    {
        ApiKey.PRODUCE: _produce,
        ApiKey.FETCH: _fetch,
        ApiKey.LIST_OFFSETS: _list_offsets,
        ApiKey.METADATA: _metadata,
        ApiKey.OFFSET_COMMIT: _offset_commit,
        ApiKey.OFFSET_FETCH: _offset_fetch,
        ApiKey.FIND_COORDINATOR: _find_coordinator,
        ApiKey.JOIN_GROUP: _reads_group(m.JoinGroupResponse(error_code=GROUP_REFUSED)),
        ApiKey.HEARTBEAT: _reads_group(m.HeartbeatResponse(error_code=GROUP_REFUSED)),
        ApiKey.LEAVE_GROUP: _reads_group(m.LeaveGroupResponse(error_code=GROUP_REFUSED)),
        ApiKey.SYNC_GROUP: _reads_group(m.SyncGroupResponse(error_code=GROUP_REFUSED)),
        ApiKey.DESCRIBE_GROUPS: _describe_groups,
        ApiKey.LIST_GROUPS: _list_groups,
        ApiKey.SASL_HANDSHAKE: _everything,
        ApiKey.API_VERSIONS: _everything,
        ApiKey.SASL_AUTHENTICATE: _everything,
        ApiKey.DELETE_GROUPS: _delete_groups,
        ApiKey.OFFSET_DELETE: _offset_delete,
        ApiKey.DESCRIBE_CLUSTER: _everything,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    }
)
