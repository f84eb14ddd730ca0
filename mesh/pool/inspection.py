"""A pool as people and tools look at it. Reads only; nothing here decides anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mesh.pool.effects import GroupId
from mesh.pool.member import Member
from mesh.pool.pool import Pool
from mesh.pool.results import TopicPartition
from mesh.pool.topics import VirtualTopics
from mesh.pool.window import Delivery
from mesh.records.spans import ClusterName, UpstreamPartition


@dataclass(frozen=True, slots=True)
class Oldest:
    """The lowest un-acknowledged offset that somebody holds of a partition, who holds it, and since when (seconds)."""

    member: Member
    offset: int
    since: float


def oldest_held(member: Member, source: UpstreamPartition) -> Delivery | None:
    """What a member holds of a partition that has the lowest upstream offset."""
    window = member.windows.get(source)
    return min(window, key=lambda delivery: delivery.first, default=None) if window is not None else None


def oldest_by_partition(pool: Pool) -> dict[UpstreamPartition, Oldest]:
    """Partitions of which nobody holds anything are left out."""
    found: dict[UpstreamPartition, Oldest] = {}
    for member in pool.all_members:
        for source in member.windows:
            delivery = oldest_held(member, source)
            if delivery is not None and (source not in found or delivery.first < found[source].offset):
                found[source] = Oldest(member, delivery.first, delivery.since)
    return found


def attributed(pool: Pool, topics: VirtualTopics) -> dict[Member, list[TopicPartition]]:
    """Each partition to exactly one member, for tools that know of no more than that: to the one for which the
    committed offset waits; one that waits for nobody, to any of those that fetch it, in turn."""
    shares: dict[Member, list[TopicPartition]] = {member: [] for member in pool.all_members}
    holders = oldest_by_partition(pool)
    fetching = sorted(pool.all_members, key=lambda member: member.name)
    turn = 0
    for source in sorted(pool.partitions):
        number = topics.number(source)
        if number is None:
            continue
        if source in holders:
            shares[holders[source].member].append(number)
        elif able := [member for member in fetching if source in member.windows]:
            shares[able[turn % len(able)]].append(number)
            turn += 1
    return shares


def is_consumer_group(pool: Pool) -> bool:
    """Whether a broker would call this group one of the consumer protocol: one such member is enough (KIP-848)."""
    return any(membership.subscription is not None for membership in pool.coordinator.members.values())


def state_of(pool: Pool | None) -> str:
    """Kafka's name for it. Members of a pool never wait for each other, so there is no rebalancing state."""
    return "Stable" if pool is not None and any(True for _ in pool.all_members) else "Empty"


def known_ends(pools: Mapping[GroupId, Pool], source: UpstreamPartition) -> int | None:
    """How far a log goes as far as any pool knows; for when its cluster does not answer."""
    ends = [pool.partitions[source].end for pool in pools.values() if source in pool.partitions]
    return max((end for end in ends if end > 0), default=None)


def known_positions(pool: Pool, cluster: ClusterName) -> Iterator[tuple[UpstreamPartition, int]]:
    """What is known to be committed on a cluster that does not answer."""
    for source, partition in pool.partitions.items():
        if source.cluster == cluster and partition.is_active and partition.ledger.stored.offset >= 0:
            yield source, partition.ledger.stored.offset
