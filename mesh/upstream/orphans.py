"""Partitions that belong to nobody: a topic grew while a static member was away.

When that member is back within its session, the coordinator gives it its old assignment without a rebalance (KIP-345).
Nobody is told of the new partitions then: whoever is the leader compares topics with what they were when it joined, and
it joins after they have grown. So a static member looks once, after its first assignment, and joins anew if need be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mesh.records.spans import TopicName

INTERVAL = 2.0
"""Seconds between two looks, and before the first: what is being assigned belongs to nobody for a moment."""
REQUEST_TIMEOUT = 5.0
MOST_LOOKS = 30
"""After which it is given up: the group may not be described, or rebalances for ever."""


class Orphans:
    """Waits for nothing: `are_there` is asked again and again."""

    def __init__(self, admin: Callable[[], AdminClient], group: str, instance_id: str | None) -> None:
        self._admin = admin
        self._group = group
        self._looks = MOST_LOOKS if instance_id is not None else 0
        self._ask_at: float | None = None
        self._answers: list[Future[Any]] = []

    def are_there(self, topics: Collection[TopicName], now: float) -> bool:
        """Whether partitions of these belong to no member of the group; True once at most. Asked while this member has
        its assignment."""
        if not self._looks:
            return False
        if self._ask_at is None:
            self._ask_at = now + INTERVAL
        if not self._answers:
            if now >= self._ask_at:
                self._ask(topics, now)
            return False
        if not all(answer.done() for answer in self._answers):
            return False
        (group, *described), self._answers = self._answers, []
        try:
            found = _unassigned(group.result(), [each.result() for each in described])
        except KafkaException:
            return False
        if found is not None:
            self._looks = 0
        return bool(found)

    def _ask(self, topics: Collection[TopicName], now: float) -> None:
        self._looks -= 1
        self._ask_at = now + INTERVAL
        admin = self._admin()
        groups = admin.describe_consumer_groups([self._group], request_timeout=REQUEST_TIMEOUT)
        described = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT)
        self._answers = [groups[self._group], *described.values()]


def _unassigned(group: Any, topics: Collection[Any]) -> set[tuple[str, int]] | None:
    """None while the group rebalances."""
    if group.state is not ConsumerGroupState.STABLE:
        return None
    assigned = {(each.topic, each.partition) for member in group.members for each in member.assignment.topic_partitions}
    return {(topic.name, partition.id) for topic in topics for partition in topic.partitions} - assigned
