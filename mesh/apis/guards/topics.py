"""Guards of requests for records, and of requests about topics. See `mesh.apis.authorization`."""

from __future__ import annotations

from dataclasses import replace

from mesh.apis.api import RequestContext
from mesh.apis.guards.result import (
    TOPIC_REFUSED,
    AuthorizationResult,
    Denied,
    Partial,
    may_topic,
    name_of,
    topics_refused,
)
from mesh.security.rules import Operation
from mesh.wire import messages as m


def produce(context: RequestContext, request: m.ProduceRequest) -> AuthorizationResult:
    refused = [topic for topic in request.topic_data if not may_topic(context, Operation.WRITE, topic.name)]
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
    return Partial(
        replace(request, topic_data=tuple(topic for topic in request.topic_data if topic not in refused)),
        lambda response: replace(response, responses=response.responses + responses),
        topics_refused(Operation.WRITE, [topic.name for topic in refused]),
    )


def fetch(context: RequestContext, request: m.FetchRequest) -> AuthorizationResult:
    # An unknown topic id needs no permission: the handler answers it.
    names = [topic.name or name_of(context, topic.topic_id) for topic in request.topics]
    refused = [
        (topic, name)
        for topic, name in zip(request.topics, names, strict=True)
        if name is not None and not may_topic(context, Operation.READ, name)
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
    refusals = topics_refused(Operation.READ, [name for _, name in refused])
    if len(refused) == len(request.topics):
        return Denied(m.FetchResponse(topics=responses), refusals)
    left = [topic for topic, _ in refused]
    return Partial(
        replace(request, topics=tuple(topic for topic in request.topics if topic not in left)),
        lambda response: replace(response, topics=response.topics + responses),
        refusals,
    )


def list_offsets(context: RequestContext, request: m.ListOffsetsRequest) -> AuthorizationResult:
    refused = [topic for topic in request.topics if not may_topic(context, Operation.DESCRIBE, topic.name)]
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
    return Partial(
        replace(request, topics=tuple(topic for topic in request.topics if topic not in refused)),
        lambda response: replace(response, topics=response.topics + responses),
        topics_refused(Operation.DESCRIBE, [topic.name for topic in refused]),
    )


def metadata(context: RequestContext, request: m.MetadataRequest) -> AuthorizationResult:
    if request.topics is None:
        return Partial(
            request,
            lambda response: replace(
                response,
                topics=tuple(topic for topic in response.topics if may_topic(context, Operation.DESCRIBE, topic.name)),
            ),
        )
    refused: list[m.MetadataTopicResponse] = []
    names: list[str] = []
    allowed: list[m.MetadataTopic] = []
    for topic in request.topics:
        name = topic.name or name_of(context, topic.topic_id)
        if name is None or may_topic(context, Operation.DESCRIBE, name):
            allowed.append(topic)
            continue
        names.append(name)
        # In Kafka ids are no secrets, but names are. So each topic is answered by the name or id that the client sent.
        refused.append(m.MetadataTopicResponse(name=topic.name, topic_id=topic.topic_id, error_code=TOPIC_REFUSED))
    if not refused:
        return None
    return Partial(
        replace(request, topics=tuple(allowed)),
        lambda response: replace(response, topics=(*response.topics, *refused)),
        topics_refused(Operation.DESCRIBE, names),
    )
