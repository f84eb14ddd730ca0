"""The commits of a group, for a client that is not a member of it.

librdkafka's admin client has one request for that, ListConsumerGroupOffsets, which must not be used. When the broker
that it asks does not coordinate the group any more, or not yet, librdkafka looks for a new coordinator through the
client's consumer group. An admin client has none, and the whole process ends with a segmentation fault (measured with
2.16; confluentinc/librdkafka issue 5040). A consumer has one, even if it joins nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from confluent_kafka import Consumer, TopicPartition

from mesh.records.spans import UpstreamPartition
from mesh.upstream.admin import ANY_TOPIC
from mesh.upstream.librdkafka_properties import Properties, connection_properties
from mesh.upstream.property_files import check_files

_ALWAYS: Properties = {
    "enable.auto.commit": False,
    "allow.auto.create.topics": False,
    "enable.metrics.push": False,
}


def committed_positions(
    properties: Properties, partitions: Collection[UpstreamPartition], timeout: float
) -> dict[UpstreamPartition, int]:
    """Returns the committed offsets of the group `group.id` in the properties. Leaves out partitions without a commit,
    and those that the mesh may not read. Without partitions, it only checks that the cluster answers.

    Call it in a thread: it blocks for up to `timeout` seconds, and closes its client. Raises KafkaException.
    """
    asked: dict[tuple[str, int], UpstreamPartition] = {(each.topic, each.partition): each for each in partitions}
    deadline = time.monotonic() + timeout
    check_files(properties)
    consumer = Consumer({**connection_properties(properties), **_ALWAYS, "group.id": properties["group.id"]})
    try:
        if not asked:
            consumer.list_topics(ANY_TOPIC, timeout=max(deadline - time.monotonic(), 0.1))
            return {}
        places = [TopicPartition(topic, number) for topic, number in asked]
        answers = consumer.committed(places, timeout=max(deadline - time.monotonic(), 0.1))
    finally:
        consumer.close()
    return {
        asked[each.topic, each.partition]: each.offset for each in answers if each.error is None and each.offset >= 0
    }
