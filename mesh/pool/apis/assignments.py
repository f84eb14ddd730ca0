"""The assignments in the answers to heartbeats, for the consumer protocol and share groups."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.pool.apis.context import PoolContext
from mesh.records.spans import TopicName
from mesh.wire.messages import TopicIdPartitions


def topic_partitions(context: PoolContext, assignment: Mapping[TopicName, int]) -> tuple[TopicIdPartitions, ...]:
    """Returns all partitions of the assigned topics. assignment: the number of partitions by topic."""
    return tuple(
        TopicIdPartitions(topic_id=context.core.topics.topic_id(name), partitions=tuple(range(count)))
        for name, count in sorted(assignment.items())
    )
