"""Obstacles that keep members from getting records of a partition."""

from __future__ import annotations

from collections.abc import Set
from enum import Enum

from mesh.pool.state.partition import Ownership, PartitionFetch
from mesh.records.spans import ClusterName


class Obstacle(Enum):
    """The reason why a Fetch may not get records of a partition, as operators see it."""

    DRAINING = "the pool is drained"
    WITHHELD = "the upstream cluster is being left"
    NOT_ASSIGNED = "partition not assigned to this process"
    REBALANCE = "upstream rebalance"
    MUST_JOIN = "must join the group again: it has lost records that it held"
    READ_AGAIN = "waits for records that are read again"
    LOCKED = "partition_max_record_locks reached"
    AT_CAP = "at its cap"
    HELD_BACK = "held back by a limit"


def obstacle_of(partition_fetch: PartitionFetch, is_stopped: bool, withheld: Set[ClusterName]) -> Obstacle | None:
    """Returns the obstacle that keeps a Fetch from getting any records of a partition; None if there is none.

    is_stopped: whether no records may be delivered at all. withheld: clusters whose records may not be delivered.
    """
    partition = partition_fetch.partition
    if is_stopped:
        return Obstacle.DRAINING
    if withheld and partition.source.cluster in withheld:
        return Obstacle.WITHHELD
    if partition.ownership is not Ownership.ASSIGNED:
        return Obstacle.NOT_ASSIGNED if partition.ownership is Ownership.UNASSIGNED else Obstacle.REBALANCE
    if partition_fetch.window.awaits_join:
        return Obstacle.MUST_JOIN
    if partition_fetch.is_locked:
        return Obstacle.LOCKED
    return Obstacle.READ_AGAIN if partition_fetch.needs_resend else None
