"""What a group has committed, for who is no member of it.

librdkafka's admin client has one request for that, ListConsumerGroupOffsets, which must not be used: when the broker
that it asks does not coordinate the group any more, or not yet, librdkafka looks for a new coordinator in the name of a
consumer group that an admin client has none of, and the whole process ends with a segmentation fault (measured with
2.16; confluentinc/librdkafka issue 5040). A consumer has one, also one that joins nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from confluent_kafka import Consumer, TopicPartition

from mesh.records.spans import UpstreamPartition
from mesh.upstream.admin import ANY_TOPIC
from mesh.upstream.librdkafka_properties import Properties, connection_properties

_ALWAYS: Properties = {
    "enable.auto.commit": False,
    "allow.auto.create.topics": False,
    "enable.metrics.push": False,
}


def committed_positions(
    properties: Properties, partitions: Collection[UpstreamPartition], timeout: float
) -> dict[UpstreamPartition, int]:
    """The next offsets that the group `group.id` of the properties has committed on their cluster; partitions without,
    and those that may not be read, are left out. Without partitions, just whether the cluster answers.

    Waits for `timeout` seconds at most, and closes what it has opened: for a thread of its own. Raises KafkaException.
    """
    asked: dict[tuple[str, int], UpstreamPartition] = {(each.topic, each.partition): each for each in partitions}
    deadline = time.monotonic() + timeout
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
