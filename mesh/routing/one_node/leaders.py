"""The leaders of a cluster's partitions, learned from answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from mesh.wire.trees import ZERO_ID, Tree

MOST_PARTITIONS: Final = 1_000_000
"""The most partitions to remember. Above it, the topics that were learned first are forgotten."""
NO_EPOCH: Final = -1
NO_LEADER: Final = -1

Topic: TypeAlias = "str | UUID"
"""A topic, by the name or id that a request uses."""


@dataclass(slots=True)
class _Known:
    """The id of a topic, and the leader and leader epoch of each partition."""

    id: UUID
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)


class ClusterLeaders:
    """The known leaders of the partitions of one cluster. controller: its broker id; -1 until it is known."""

    def __init__(self, most: int = MOST_PARTITIONS) -> None:
        self.controller = NO_LEADER
        self._most: Final = most
        self._topics: dict[str, _Known] = {}
        self._names: dict[UUID, str] = {}
        self._partitions = 0

    def __len__(self) -> int:
        """The number of known partitions."""
        return self._partitions

    def leader(self, topic: Topic, partition: int) -> int | None:
        """Returns the broker that leads a partition, -1 if it has no leader; None if the partition is unknown."""
        name = self._names.get(topic) if isinstance(topic, UUID) else topic
        known = self._topics.get(name) if name is not None else None
        found = known.leaders.get(partition) if known is not None else None
        return found[0] if found is not None else None

    def name_of(self, topic: Topic) -> str | None:
        return self._names.get(topic) if isinstance(topic, UUID) else topic

    def take(self, answer: Tree) -> None:
        """Takes a Metadata answer, as returned by `read_tree`. Partitions with an older leader epoch than the known one
        are ignored, because a broker may be behind."""
        self.controller = answer.get("controller_id", NO_LEADER)
        for topic in answer["topics"]:
            if topic["name"] is not None and not topic["error_code"]:
                self._take_topic(topic["name"], topic.get("topic_id", ZERO_ID), topic["partitions"])
        while self._partitions > self._most and len(self._topics) > 1:
            self.forget(next(iter(self._topics)))

    def _take_topic(self, name: str, topic_id: UUID, partitions: Collection[Tree]) -> None:
        known = self._topics.get(name)
        if known is not None and known.id != topic_id and ZERO_ID not in (known.id, topic_id):
            self.forget(name)  # the topic was created again
            known = None
        if known is None:
            known = self._topics[name] = _Known(topic_id)
        if topic_id != ZERO_ID:
            known.id = topic_id
            self._names[topic_id] = name
        before = len(known.leaders)
        for each in partitions:
            self._set(known, each["partition_index"], each["leader_id"], each.get("leader_epoch", NO_EPOCH))
        self._partitions += len(known.leaders) - before

    def moved(self, topic: Topic, partition: int, leader: int, epoch: int) -> None:
        """Takes a new leader that a broker reported (KIP-951)."""
        name = self.name_of(topic)
        if name is not None and (known := self._topics.get(name)) is not None and partition in known.leaders:
            self._set(known, partition, leader, epoch)

    def forget(self, name: str) -> None:
        known = self._topics.pop(name, None)
        if known is not None:
            self._partitions -= len(known.leaders)
            self._names.pop(known.id, None)

    @staticmethod
    def _set(known: _Known, partition: int, leader: int, epoch: int) -> None:
        _, before = known.leaders.get(partition, (NO_LEADER, NO_EPOCH))
        if epoch == NO_EPOCH or epoch >= before:
            known.leaders[partition] = leader, epoch
