"""Metadata: v0-v12

Behaviour:
* There are two nodes: this one leads every partition; the same process under another port and node id is the group
  coordinator. Further configured nodes, also of this process, lead partitions in turn with the first. The leader epoch
  is 0. Topic ids are never zero and never change.
* An unknown topic gets UNKNOWN_TOPIC_OR_PARTITION (by id: UNKNOWN_TOPIC_ID). If the configuration allows a topic of
  that name, the mesh soon looks for it upstream. It never creates a topic.
* A name that no topic can have gets INVALID_TOPIC, as on a broker: no client asks for it again.

Version notes:
* v0: an empty list of topics means all. v1: null means all, empty means none.
* v8: authorized operations (KIP-430) - never given. v9: flexible (KIP-482). v10: topic ids (KIP-516). v12: by id.

Ignored: allow_auto_topic_creation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.common.effects import Effect
from mesh.records.spans import TopicName
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    MetadataBroker,
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    MetadataTopicResponse,
)

LEGAL_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Kafka's rule (org.apache.kafka.common.internals.Topic)."""


def handle(context: PoolContext, request: MetadataRequest) -> Sequence[Effect]:
    effects: list[Effect] = []
    if request.topics is None:
        topics = tuple(_known(context, name) for name in context.core.topics.names())
    else:
        topics = tuple(_asked(context, topic, effects) for topic in request.topics)
    endpoint = context.endpoint
    response = MetadataResponse(
        brokers=tuple(
            MetadataBroker(node_id=node, host=address.host, port=address.port) for node, address in endpoint.all_nodes()
        ),
        cluster_id=endpoint.cluster_id,
        controller_id=endpoint.nodes.broker,
        topics=topics,
    )
    return [*effects, *context.answer(response)]


def _asked(context: PoolContext, topic: MetadataTopic, effects: list[Effect]) -> MetadataTopicResponse:
    if topic.name is None or (not topic.name and topic.topic_id is not None):  # the Java client sends "" beside an id
        name = context.core.topics.name_of(topic.topic_id) if topic.topic_id is not None else None
        if name is None:
            return MetadataTopicResponse(name=None, topic_id=topic.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        return _known(context, name)
    name = TopicName(topic.name)
    if name in context.core.topics:
        return _known(context, name)
    if LEGAL_NAME.fullmatch(name) is None:
        return MetadataTopicResponse(name=name, error_code=ErrorCode.INVALID_TOPIC)
    effects.extend(context.core.missing_topic(name))
    return MetadataTopicResponse(name=topic.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _known(context: PoolContext, name: TopicName) -> MetadataTopicResponse:
    leaders = context.endpoint.leaders(name)
    return MetadataTopicResponse(
        name=name,
        topic_id=context.core.topics.topic_id(name),
        partitions=tuple(
            MetadataPartitionResponse(
                partition_index=index,
                leader_id=leader,
                leader_epoch=0,
                replica_nodes=(leader,),
                isr_nodes=(leader,),
            )
            for index, leader in zip(range(len(context.core.topics.partitions(name))), leaders, strict=False)
        ),
    )


API = Api(ApiKey.METADATA, APIS[ApiKey.METADATA], handle, as_it_is)
