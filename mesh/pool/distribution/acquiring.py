"""How much of what waits in a partition one share member acquires at once.

Whole batches, until there are as many records as it asks for; or exactly so many. Bytes are never cut for it, since it
is told which of their offsets it has. While other members have nothing it gets an equal part, or whoever asks first
would have all that a partition may have acquired.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import islice

from mesh.pool.distribution.backlogs import Backlogs
from mesh.pool.distribution.fetch_queue import FetchQueue
from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.state.fetch import AcquireTerms
from mesh.pool.state.member import Member
from mesh.pool.state.partition import NO_LIMIT, Fetch, Partition, PartitionFetch
from mesh.pool.state.window import Available, View

MOST_LOOKED_AT = 200
"""Members of which it is looked whether they have nothing."""


class Acquiring:
    """Takes from backlogs for share members, and counts what they have of each partition."""

    def __init__(self, backlogs: Backlogs, quarantine: Quarantine, queue: FetchQueue, members: Set[Member]) -> None:
        """members: those that have asked for records and are alive."""
        self._backlogs = backlogs
        self._quarantine = quarantine
        self._queue = queue
        self._members = members
        self._locked: set[Partition] = set()
        """Of which as much is acquired as may be."""
        self.unlocked: dict[Partition, None] = {}
        """Of which it was, and now there is room again."""

    def take(
        self, fetch: Fetch, terms: AcquireTerms, wanted: PartitionFetch, available: Available, part: int | None
    ) -> list[Available]:
        """Take what a ShareFetch may have of the oldest that it may have of a partition; nothing if that is nothing.

        part: offsets that are its equal part; None: of all that is known to be there.
        """
        limit = terms.most - _collected(fetch)
        if part is None:
            part = self._part(wanted.partition, fetch.member) - sum(map(len, wanted.collected or ()))
        if limit <= 0 or part <= 0 or not fetch.fitting(wanted, available.batch):
            return []
        available = self._without_front(wanted.partition, available)
        is_suspected = self._quarantine.is_suspected(available)
        limit = min(limit, part)
        if is_suspected:
            limit = min(limit, (len(available) + 1) // 2)
        if terms.is_exact or is_suspected:
            room = fetch.fitting(wanted, available.batch)
            return self._exactly(wanted.partition, available, limit, room)
        count = fetch.fitting(wanted, available.batch, limit)
        return [self._backlogs.take_some(wanted.partition, available, count)]

    def lock(self, partition: Partition, count: int, most: int) -> None:
        """So many offsets more of it were acquired. When they are as many as may be, no ShareFetch waits for more."""
        partition.locks += count
        if not count or partition.locks < most:
            return
        self._locked.add(partition)
        for fetch, wanted in [*partition.waiting.items()]:
            if wanted.is_locked:
                self._queue.leave_partition(fetch, wanted)
        for fetch in [fetch for fetch, wanted in partition.ineligible.items() if wanted.is_locked]:
            del partition.ineligible[fetch]

    def unlock(self, partition: Partition, count: int) -> None:
        """Share members have so many offsets less of it; those that wait are offered its backlog again before the step
        ends, if they could have no more before."""
        partition.locks -= count
        if partition in self._locked:
            self._locked.discard(partition)
            self.unlocked[partition] = None

    def take_unlocked(self) -> list[Partition]:
        """Partitions of which members may have more than before."""
        unlocked, self.unlocked = list(self.unlocked), {}
        return unlocked

    def forget(self, partition: Partition) -> None:
        """Nobody has any of it any more."""
        partition.locks = 0
        self._locked.discard(partition)

    def _exactly(self, partition: Partition, available: Available, limit: int, room: int) -> list[Available]:
        """So many offsets at most, of no more batches than there is room for."""
        if room < len(available.batch.marks):
            taken = self._backlogs.take_some(partition, available, room)
            if len(taken) <= limit:
                return [taken]
            self._backlogs.put(partition, taken)
            available = taken
        if len(available) <= limit:
            self._backlogs.take(partition, available)
            return [available]
        return self._backlogs.take_offsets(partition, available, limit)

    def _part(self, partition: Partition, member: Member) -> int:
        """An equal part of what is known to be there, for it and for those that have nothing."""
        hungry = sum(not other.in_flight for other in islice(self._members, MOST_LOOKED_AT) if other is not member)
        if not hungry:
            return NO_LIMIT
        unread = max(partition.end - partition.ledger.received, 0)
        return -(-(partition.backlog_offsets + unread) // (hungry + 1))

    def _without_front(self, partition: Partition, available: Available) -> Available:
        """Offsets without records in front of a batch are settled, and not acquired: its member would acknowledge each
        of them, ten thousand perhaps."""
        batch = available.batch
        if batch.first >= batch.base or isinstance(available, View):
            return available
        self._backlogs.take(partition, available)
        partition.ledger.settle_empty(batch.first, batch.base - 1)
        batch.first = batch.base
        self._backlogs.put(partition, available)
        return available


def _collected(fetch: Fetch) -> int:
    """Offsets that it has already."""
    return sum(len(available) for each in fetch.partition_fetches for available in each.collected or ())
