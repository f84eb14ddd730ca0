"""The Fetches of one pool that may take a batch now, in the order of its policy.

Kafka calls such a queue a purgatory. A Fetch waits on each of its partitions that may have records for it. It has a
rank while it waits on any partition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Generic, TypeVar

from sortedcontainers import SortedDict

from mesh.pool.common.settings import Policy
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch, Rank, Violation

FEW = 8
"""Up to this many waiting Fetches are compared directly. Beyond that, the best one is found in the order of the whole
pool."""
HALF_LIFE = 5.0
"""Seconds after which deliveries to a member count half."""


Item = TypeVar("Item")


class Ranking(Generic[Item]):
    """Items in the order of their ranks, lowest first. Ranks are unique. A change during an iteration starts it again.

    The order is computed only when it is needed: most Fetches of a pool without records are parked and answered without
    it.
    """

    __slots__ = ("_new", "_ordered")

    def __init__(self) -> None:
        self._ordered: SortedDict[Rank, Item] = SortedDict()
        self._new: dict[Rank, Item] = {}
        """Items added since the last lookup."""

    def __len__(self) -> int:
        return len(self._ordered) + len(self._new)

    def add(self, rank: Rank, item: Item) -> None:
        self._new[rank] = item

    def remove(self, rank: Rank) -> None:
        """Removes the item with this rank. Raises KeyError if there is none."""
        if self._new.pop(rank, None) is None:
            del self._ordered[rank]

    def at(self, index: int) -> Item:
        """Returns the item at an index. Raises IndexError."""
        self._order()
        item: Item = self._ordered.peekitem(index)[1]
        return item

    def __iter__(self) -> Iterator[Item]:
        self._order()
        return iter(self._ordered.values())

    def _order(self) -> None:
        if self._new:
            self._ordered.update(self._new)
            self._new.clear()


class FetchQueue:
    """The Fetches that may take a batch now, in the order of their ranks."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._ranks: Ranking[Fetch] = Ranking()
        self.size = 0
        """The number of Fetches that may take a batch now."""

    def enter(self, fetch: Fetch, partition_fetch: PartitionFetch, now: float) -> None:
        """Lets a Fetch wait on a partition."""
        partition_fetch.partition.waiting[fetch] = partition_fetch
        fetch.waiting += 1
        if fetch.rank is None:
            self.rank(fetch, now)

    def rank(self, fetch: Fetch, now: float) -> None:
        """Ranks a Fetch again, after its member has got, committed or lost records."""
        member = fetch.member
        if fetch.rank is not None:
            self._ranks.remove(fetch.rank)
        else:
            self.size += 1
        fetch.rank = rank_of(self._policy, member, fetch.sequence, now)
        self._ranks.add(fetch.rank, fetch)

    def best(self, partition: Partition) -> Fetch:
        """Returns the best of the Fetches that wait on a partition. Raises Violation if none of them is in the
        queue."""
        waiting = partition.waiting
        if len(waiting) <= FEW:
            return min(waiting, key=lambda fetch: fetch.rank or (0.0, 0.0, 0, 0))
        best: Fetch | None = next((fetch for fetch in self._ranks if fetch in waiting), None)
        if best is not None:
            return best
        raise Violation(f"{partition.source}: {len(waiting)} fetches wait and none of them is in the queue")

    def leave(self, fetch: Fetch) -> None:
        """Removes a Fetch: it waits on no partition any more, and is ineligible for none."""
        for partition_fetch in fetch.partition_fetches:
            partition_fetch.partition.waiting.pop(fetch, None)
            partition_fetch.partition.ineligible.pop(fetch, None)
        fetch.waiting = 0
        self._lose_rank(fetch)

    def leave_partition(self, fetch: Fetch, partition_fetch: PartitionFetch) -> None:
        """Stops waiting on a partition."""
        del partition_fetch.partition.waiting[fetch]
        fetch.waiting -= 1
        if not fetch.waiting:
            self._lose_rank(fetch)

    def _lose_rank(self, fetch: Fetch) -> None:
        if fetch.rank is not None:
            self._ranks.remove(fetch.rank)
            fetch.rank = None
            self.size -= 1


def rank_of(policy: Policy, member: Member, sequence: int, now: float, more: int = 0) -> Rank:
    """Returns the rank of a Fetch. more: offsets that its member would get in addition."""
    match policy:
        case Policy.LEAST_LOADED:
            recent = with_more(member.recent, more, now) if more else member.recent
            load = member.flow.load(member.in_flight + more, now)
            if (preference := member.preference) is None:
                return (load, recent, member.served, sequence)
            return (load - preference.load_advantage, recent - preference.recent_advantage, member.served, sequence)
        case Policy.ROUND_ROBIN:
            return (_load_advantage(member), 0.0, member.served, sequence)
        case Policy.OLDEST_FIRST:
            # Count from the member's first Fetch, not from this one: with a short max_wait it asks often.
            member.asking = member.asking or sequence
            return (_load_advantage(member), 0.0, member.asking, sequence)


def _load_advantage(member: Member) -> float:
    return -member.preference.load_advantage if member.preference is not None else 0.0


def with_more(recent: float, count: int, now: float, half_life: float = HALF_LIFE) -> float:
    """Returns the amount of records that a member got lately, with `count` more now, as a logarithm to base 2. In the
    sum, records weigh twice as much for each half-life that they are younger. So passing time changes nothing, and the
    logarithm keeps the number small."""
    new = now / half_life + math.log2(count)
    higher, lower = (new, recent) if new > recent else (recent, new)
    return higher + math.log2(1.0 + 2.0 ** (lower - higher))


def amount(recent: float, now: float, half_life: float = HALF_LIFE) -> float:
    """Returns the offsets that a member got lately. Those of a half-life ago count half."""
    return float(2.0 ** (recent - now / half_life))
