"""Priorities of topics, for a Fetch that asks for several topics with waiting records.

Lower priorities do not starve: each gets a tenth of the bytes of higher ones while it waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.sharing import Sharing
from mesh.pool.state.partition import Partition, PartitionFetch

FLOOR: Final = 0.1
"""The least part of all bytes that a lower priority gets."""
MOST_OWED: Final = 16 << 20
"""The most bytes by which a priority may be behind or ahead of its part."""


class TopicPriorities:
    """The priorities of the topics of one pool, with the bytes that each priority has got."""

    def __init__(self, parts: PoolParts) -> None:
        self._sharing = parts.settings.sharing
        self._owed: defaultdict[int, float] = defaultdict(float)
        """The bytes that each priority is still owed of its tenth."""
        self.are_used = bool(self._sharing.topics)

    def change(self, sharing: Sharing, partitions: Iterable[Partition]) -> None:
        self._sharing = sharing
        self.are_used = bool(sharing.topics)
        self._owed.clear()
        for partition in partitions:
            self.begin(partition)

    def begin(self, partition: Partition) -> None:
        """Sets the priority of a partition that is new here."""
        partition.priority = self._sharing.topic_priority(partition.source)

    def in_order(self, partition_fetches: Iterable[PartitionFetch]) -> list[tuple[int, list[PartitionFetch]]]:
        """Returns the partitions with waiting records by priority, in the order in which to serve them."""
        by_priority: dict[int, list[PartitionFetch]] = {}
        for each in partition_fetches:
            if each.partition.backlog:
                by_priority.setdefault(each.partition.priority, []).append(each)
        return sorted(by_priority.items(), key=lambda item: (-max(self._owed[item[0]], 0.0), -item[0]))

    def took(self, priority: int, size: int, waiting: Iterable[int]) -> None:
        """Counts bytes of one priority that were given while partitions of the `waiting` priorities had records."""
        self._owed[priority] = max(self._owed[priority] - size, -MOST_OWED)
        for each in waiting:
            if each < priority:
                self._owed[each] = min(self._owed[each] + size * FLOOR / (1.0 - FLOOR), MOST_OWED)
        self._owed[max(waiting)] = 0.0
