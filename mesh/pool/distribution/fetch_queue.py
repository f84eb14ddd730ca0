"""The Fetches of one pool that may take a batch now, in the order of its policy.

Kafka calls it a purgatory. A Fetch waits on each of its partitions that may have records for it; while it waits on any,
it has a rank.
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
"""So many waiters are compared directly; more are looked up in the order of the whole pool."""
HALF_LIFE = 5.0
"""Seconds after which what a member was given counts half."""


Item = TypeVar("Item")


class Ranking(Generic[Item]):
    """Items in the order of their ranks, the lowest first; no two have the same one. To change it while iterating is to
    begin again.

    The order is made up only when somebody looks at it: most Fetches of a pool to which nothing comes are parked and
    answered without anybody having asked whose turn it is.
    """

    __slots__ = ("_new", "_ordered")

    def __init__(self) -> None:
        self._ordered: SortedDict[Rank, Item] = SortedDict()
        self._new: dict[Rank, Item] = {}
        """What was added since somebody looked."""

    def __len__(self) -> int:
        return len(self._ordered) + len(self._new)

    def add(self, rank: Rank, item: Item) -> None:
        self._new[rank] = item

    def remove(self, rank: Rank) -> None:
        """Raises KeyError if nothing has this rank."""
        if self._new.pop(rank, None) is None:
            del self._ordered[rank]

    def at(self, index: int) -> Item:
        """Raises IndexError if there are not so many."""
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
        """How many Fetches may take a batch now."""

    def enter(self, fetch: Fetch, partition_fetch: PartitionFetch, now: float) -> None:
        """It waits on this partition."""
        partition_fetch.partition.waiting[fetch] = partition_fetch
        fetch.waiting += 1
        if fetch.rank is None:
            self.rank(fetch, now)

    def rank(self, fetch: Fetch, now: float) -> None:
        """What its member holds, or was given, has changed."""
        member = fetch.member
        if fetch.rank is not None:
            self._ranks.remove(fetch.rank)
        else:
            self.size += 1
        fetch.rank = rank_of(self._policy, member, fetch.sequence, now)
        self._ranks.add(fetch.rank, fetch)

    def best(self, partition: Partition) -> Fetch:
        """Who is next, of those that wait on a partition. Raises Violation if none of them is here."""
        waiting = partition.waiting
        if len(waiting) <= FEW:
            return min(waiting, key=lambda fetch: fetch.rank or (0.0, 0.0, 0, 0))
        best: Fetch | None = next((fetch for fetch in self._ranks if fetch in waiting), None)
        if best is not None:
            return best
        raise Violation(f"{partition.source}: {len(waiting)} fetches wait and none of them is in the queue")

    def leave(self, fetch: Fetch) -> None:
        """It waits on no partition any more, nor stands aside."""
        for partition_fetch in fetch.partition_fetches:
            partition_fetch.partition.waiting.pop(fetch, None)
            partition_fetch.partition.ineligible.pop(fetch, None)
        fetch.waiting = 0
        self._lose_rank(fetch)

    def leave_partition(self, fetch: Fetch, partition_fetch: PartitionFetch) -> None:
        """It does not wait on this partition any more."""
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
    """more: offsets that it is to have as well."""
    match policy:
        case Policy.LEAST_LOADED:
            recent = with_more(member.recent, more, now) if more else member.recent
            return (member.flow.load(member.in_flight + more, now), recent, member.served, sequence)
        case Policy.ROUND_ROBIN:
            return (0.0, 0.0, member.served, sequence)
        case Policy.OLDEST_FIRST:
            # Since when its member asks, not this Fetch: one with a short max_wait asks again and again.
            member.asking = member.asking or sequence
            return (0.0, 0.0, member.asking, sequence)


def with_more(recent: float, count: int, now: float) -> float:
    """What a member had lately, and `count` more: the binary logarithm of a sum whose parts weigh twice as much for
    each HALF_LIFE that they are younger. So time passing changes nothing, and it outgrows no number."""
    new = now / HALF_LIFE + math.log2(count)
    higher, lower = (new, recent) if new > recent else (recent, new)
    return higher + math.log2(1.0 + 2.0 ** (lower - higher))
