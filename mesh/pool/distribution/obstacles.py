"""What keeps members from having records of a partition."""

from __future__ import annotations

from collections.abc import Set
from enum import Enum

from mesh.pool.state.partition import Ownership, PartitionFetch
from mesh.records.spans import ClusterName


class Obstacle(Enum):
    """Why a Fetch may not have records of a partition, in words for people."""

    DRAINING = "the pool is drained"
    WITHHELD = "the upstream cluster is being left"
    NOT_ASSIGNED = "partition not assigned to this process"
    REBALANCE = "upstream rebalance"
    READ_AGAIN = "waits for what is read again"
    LOCKED = "as many records of the partition are acquired as may be"
    AT_CAP = "at its cap"


def obstacle_of(partition_fetch: PartitionFetch, is_stopped: bool, withheld: Set[ClusterName]) -> Obstacle | None:
    """What keeps whoever asks from having any record of a partition, whatever it holds of others.

    is_stopped: whether nothing may be given at all. withheld: of which clusters nothing may.
    """
    partition = partition_fetch.partition
    if is_stopped:
        return Obstacle.DRAINING
    if withheld and partition.source.cluster in withheld:
        return Obstacle.WITHHELD
    if partition.ownership is not Ownership.ASSIGNED:
        return Obstacle.NOT_ASSIGNED if partition.ownership is Ownership.UNASSIGNED else Obstacle.REBALANCE
    if partition_fetch.is_locked:
        return Obstacle.LOCKED
    return Obstacle.READ_AGAIN if partition_fetch.behind else None
