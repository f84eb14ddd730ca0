"""Decides how much of a partition's backlog one share member acquires at once.

A share member gets whole batches until it has the requested number of records, or exactly that number. Bytes are never
cut: the answer says which of their offsets the member has acquired. While other members have nothing, it gets an equal
part. Otherwise the first member would get all that may be acquired of a partition.
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
"""The most members that are checked for having nothing."""


class Acquiring:
    """Takes records from backlogs for share members, and counts the acquired offsets of each partition."""

    def __init__(self, backlogs: Backlogs, quarantine: Quarantine, queue: FetchQueue, members: Set[Member]) -> None:
        """members: the living members that have asked for records."""
        self._backlogs = backlogs
        self._quarantine = quarantine
        self._queue = queue
        self._members = members
        self._locked: set[Partition] = set()
        """Partitions with as many acquired records as allowed."""
        self.unlocked: dict[Partition, None] = {}
        """Partitions that were at their limit of acquired records, and have room again."""

    def take(
        self,
        fetch: Fetch,
        terms: AcquireTerms,
        wanted: PartitionFetch,
        available: Available,
        share: int | None,
        room: int,
    ) -> list[Available]:
        """Takes records for a ShareFetch from the oldest batch that it may have of a partition. Returns an empty list
        if it may have none.

        share: the offsets of its equal share; None to compute it from all known records. room: the most offsets.
        """
        limit = min(terms.most - fetch.offsets, room)
        if share is None:
            share = self._equal_share(wanted.partition, fetch.member) - sum(map(len, wanted.collected or ()))
        if limit <= 0 or share <= 0 or not fetch.fitting(wanted, available.batch):
            return []
        available = self._without_front(wanted.partition, available)
        is_suspected = self._quarantine.is_suspected(available)
        limit = min(limit, share)
        if is_suspected:
            limit = min(limit, (len(available) + 1) // 2)
        if terms.is_exact or is_suspected:
            room = fetch.fitting(wanted, available.batch)
            return self._exactly(wanted.partition, available, limit, room)
        count = fetch.fitting(wanted, available.batch, limit)
        return [self._backlogs.take_some(wanted.partition, available, count)]

    def lock(self, partition: Partition, count: int, most: int) -> None:
        """Counts newly acquired offsets of a partition. At the limit, no ShareFetch waits for the partition any
        more."""
        partition.acquired_offsets += count
        if not count or partition.acquired_offsets < most:
            return
        self._locked.add(partition)
        for fetch, wanted in [*partition.waiting.items()]:
            if wanted.is_locked:
                self._queue.leave_partition(fetch, wanted)
        for fetch in [fetch for fetch, wanted in partition.ineligible.items() if wanted.is_locked]:
            del partition.ineligible[fetch]

    def unlock(self, partition: Partition, count: int) -> None:
        """Counts offsets of a partition that share members no longer hold. If the partition was at its limit, waiting
        members are offered its backlog again before the step ends."""
        partition.acquired_offsets -= count
        if partition in self._locked:
            self._locked.discard(partition)
            self.unlocked[partition] = None

    def take_unlocked(self) -> list[Partition]:
        """Returns the partitions that have room for acquired records again, since the last call."""
        unlocked, self.unlocked = list(self.unlocked), {}
        return unlocked

    def forget(self, partition: Partition) -> None:
        """Notes that no member has acquired records of a partition any more."""
        partition.acquired_offsets = 0
        self._locked.discard(partition)

    def _exactly(self, partition: Partition, available: Available, limit: int, room: int) -> list[Available]:
        """Takes at most `limit` offsets, of at most `room` batches."""
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

    def _equal_share(self, partition: Partition, member: Member) -> int:
        """Returns the equal share of the known records for this member, if the members without any records share them
        with it."""
        hungry = sum(not other.in_flight for other in islice(self._members, MOST_LOOKED_AT) if other is not member)
        if not hungry:
            return NO_LIMIT
        unread = max(partition.end - partition.ledger.received, 0)
        return -(-(partition.backlog_offsets + unread) // (hungry + 1))

    def _without_front(self, partition: Partition, available: Available) -> Available:
        """Settles offsets without records in front of a batch, so that they are not acquired. The member would have to
        acknowledge each of them, perhaps ten thousand."""
        batch = available.batch
        if batch.first >= batch.base or isinstance(available, View):
            return available
        self._backlogs.take(partition, available)
        partition.ledger.settle_empty(batch.first, batch.base - 1)
        batch.first = batch.base
        self._backlogs.put(partition, available)
        return available
