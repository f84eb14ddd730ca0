"""Who gets which batch.

A batch goes to the best of the Fetches that wait on its partition, or into the backlog; a Fetch takes what the backlogs
of its partitions hold, or waits on them. Whatever makes a parked Fetch eligible again (a commit, a leave, a timer)
offers it the backlog in the same step. Nothing is answered here: Fetches that have enough are left in `complete`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.acquiring import Acquiring
from mesh.pool.distribution.backlogs import Backlogs
from mesh.pool.distribution.fetch_queue import FetchQueue, with_more
from mesh.pool.distribution.obstacles import Obstacle, obstacle_of
from mesh.pool.distribution.parked_fetches import ParkedFetches
from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.reservations import PLENTY, Reservations
from mesh.pool.distribution.shares import Shares
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.distribution.window_limits import WindowLimits
from mesh.pool.state.fetch import AcquireTerms
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch
from mesh.pool.state.window import Available, View
from mesh.records.spans import ClusterName, UpstreamPartition


class Distribution:
    """The parked Fetches of one pool, and the backlogs they take from.

    touched: partitions whose invariant may have changed in this step.
    """

    def __init__(
        self,
        parts: PoolParts,
        slicing: Slicing,
        partitions: Mapping[UpstreamPartition, Partition],
        parked: dict[Ticket, Fetch],
    ) -> None:
        self.parked = ParkedFetches(parked)
        self.complete: deque[Fetch] = deque()
        """Fetches that are to be answered with what they have, in the order in which that was decided."""
        self._queue = FetchQueue(parts.settings.policy)
        self._served = 0
        self._freed: dict[Member, None] = {}
        self._with_records: dict[Partition, None] = {}
        """Partitions of which something has come in this step."""
        self._satisfied: dict[Fetch, int] = {}
        """Fetches that have what they asked for, and may have more of what this step brings; how many offsets of that
        each has had."""
        self.quarantine = Quarantine(parts.settings.redelivery)
        self.backlogs = Backlogs(self.quarantine, slicing)
        self.touched = self.backlogs.touched
        self.window_limits = WindowLimits(parts, self._queue, self.backlogs, partitions)
        self._shares = Shares(self.window_limits, self.quarantine)
        self.acquiring = Acquiring(self.backlogs, self.quarantine, self._queue, self.window_limits.members)
        self.reservations = Reservations(parts, self.window_limits, self.quarantine, self._shares, self.backlogs)
        self.is_stopped = False
        """Whether no record may be given at all."""
        self.withheld: set[ClusterName] = set()
        """Of which no record may be given."""
        self.collected_bytes = 0
        """Of what Fetches hold that are not answered yet."""

    @property
    def waiting(self) -> int:
        """How many Fetches may take a batch now."""
        return self._queue.size

    @property
    def members(self) -> set[Member]:
        """Members that have asked for records and are alive."""
        return self.window_limits.members

    @property
    def fetches(self) -> list[Fetch]:
        """Those that are parked, in the order in which they came."""
        fetches = (fetch for member in self.members for fetch in self.parked.of(member))
        return sorted(fetches, key=lambda fetch: fetch.sequence)

    def obstacle(self, member: Member, partition_fetch: PartitionFetch) -> Obstacle | None:
        """What keeps a member from having any record of a partition that it asks for, whether there is one or not."""
        obstacle = obstacle_of(partition_fetch, self.is_stopped, self.withheld)
        if obstacle is None and self.window_limits.is_full(member):
            return Obstacle.AT_CAP
        return obstacle

    # A Fetch comes, is answered, or goes

    def fill(self, fetch: Fetch, now: float) -> bool:
        """Let a Fetch take from the backlogs what it may; whether it can take no more of what is there."""
        blocked = False
        self.quarantine.asks(fetch, now)
        for partition_fetch in fetch.partition_fetches:
            if partition_fetch.partition.backlog:
                blocked = self._fill_from(fetch, partition_fetch, now) or blocked
        return blocked

    def park(self, fetch: Fetch, now: float) -> None:
        self.parked.add(fetch)
        self._admit(fetch, now)

    def finish(self, fetch: Fetch, now: float) -> None:
        """A Fetch gets nothing more, and is complete; from here on its member is between two Fetches."""
        if fetch.answered:
            return
        self.remove(fetch)
        self.complete.append(fetch)
        # Before the next batch is given: some of it may be for this member, which is about to ask again.
        self.reservations.reserve(fetch.member, now)

    def remove(self, fetch: Fetch) -> None:
        """It is complete, or its connection is gone."""
        fetch.answered = True
        if fetch.ticket in fetch.member.parked:  # most that find a backlog are answered without having been parked
            self._queue.leave(fetch)
            self._satisfied.pop(fetch, None)
            self.parked.remove(fetch)
        if fetch.has_records:
            fetch.member.asking = 0

    def give_back(self, fetch: Fetch, partition_fetches: Iterable[PartitionFetch]) -> list[Partition]:
        """What was collected for these partitions goes back to where it was taken from, as if it had never been
        taken."""
        changed: list[Partition] = []
        for partition_fetch in partition_fetches:
            if not partition_fetch.collected:
                continue
            for available in partition_fetch.collected:
                self.collected_bytes -= available.size
                self.backlogs.put(partition_fetch.partition, available)
                self.free(fetch.member, len(available))
                if fetch.terms is not None:
                    self.acquiring.unlock(partition_fetch.partition, len(available))
            fetch.size -= partition_fetch.size
            partition_fetch.collected, partition_fetch.size = None, 0
            changed.append(partition_fetch.partition)
        return changed

    # Batches come

    def note_records(self, partition: Partition) -> None:
        """Its backlog is to be shared out when the step ends, with what else has come by then."""
        self._with_records[partition] = None
        self.touched.add(partition)

    def end_step(self, now: float) -> None:
        """Share out what has come, offer it to members that hold less, and finish the Fetches that have enough."""
        while self._with_records or self._freed or self._satisfied or self.acquiring.unlocked:
            with_records, self._with_records = self._with_records, {}
            # A part is of all that has come, since one answer of a broker has records of several partitions: with a
            # part of each by itself a Fetch would be finished with the first few records.
            part = self._shares.part(sum(partition.backlog_offsets for partition in with_records))
            for partition in with_records:
                self.distribute(partition, now, part=part)
            # After the new records: members that waited with room come before those that have just made some.
            freed, self._freed = self._freed, {}
            for member in freed:
                self.refill(member, now)
            for partition in self.acquiring.take_unlocked():
                self._offer_again([each for each in partition.parked if each.terms is not None], now)
            # Only now, when nothing more can come to them in this step.
            satisfied, self._satisfied = self._satisfied, {}
            for fetch in satisfied:
                self.finish(fetch, now)

    def catch_up(self, now: float) -> None:
        """A timer was due: offer the records that it put back, and the backlog to members that may hold more since."""
        returned, self.reservations.returned = self.reservations.returned, []
        for partition in returned:
            self.distribute(partition, now, keeps=False)
        for member in self.window_limits.take_grown():
            self.refill(member, now)
        self.window_limits.were_offered(now)

    def distribute(self, partition: Partition, now: float, keeps: bool = True, part: int | None = None) -> None:
        """Give the backlog to those who wait, as far as it goes. keeps: whether something may be kept for members that
        had less, and are about to ask again. part: offsets that are an equal part for each member, of this backlog
        unless it is one of several."""
        self.touched.add(partition)
        if not partition.is_active:
            return
        # The member on trial must be known before anything is given: it gets the suspected batches, others the rest.
        for parked in partition.parked if partition.suspects else ():
            self.quarantine.asks(parked, now)
        # Of what there is now: the parts of those that come later must not become smaller with each that is served.
        part = part or self._shares.part(partition.backlog_offsets)
        keeps = keeps and not self.is_stopped and partition.backlog_bytes < PLENTY
        while partition.backlog:
            # The best is looked up for each batch: what a member is given changes its rank.
            fetch = self._queue.best(partition) if partition.waiting else None
            # A member between two Fetches may come before the best that waits, or there would be nothing for a slower
            # client whenever it asks.
            if keeps and self.reservations.keep(partition, fetch, now):
                self.wait_for_more(partition, now)
                continue
            if fetch is None:
                break
            self._give(fetch, partition.waiting[fetch], part, now)
        # Some Fetches stood aside, since they might have none of the batches that were here before.
        if partition.backlog and partition.ineligible:
            self._offer_again(list(partition.ineligible), now)
        # Records may be left because all windows are full: then the caps of all are too small.
        self.window_limits.grow_together_soon(now)

    def _give(self, fetch: Fetch, partition_fetch: PartitionFetch, part: int, now: float) -> None:
        """The oldest that it may have of a partition on which it waits, of a run an equal part at most.

        Once it has its part it is answered: others are at work, and have theirs when they ask. Until then it may have
        more of what this step brings, though it has all that it asked for.
        """
        partition = partition_fetch.partition
        available = self._first_for(fetch, partition)
        if available is None:
            if partition.backlog:  # what was there may have held no record
                self._queue.leave_partition(fetch, partition_fetch)
                partition.ineligible[fetch] = partition_fetch
            return
        taken = self._take(fetch, partition_fetch, available, now, part)
        had = self._satisfied.get(fetch, 0) + taken
        if not taken or (fetch.is_satisfied and had + taken // 2 >= part):  # as much again would be rather too much
            self.finish(fetch, now)
        elif fetch.is_satisfied:
            self._satisfied[fetch] = had

    def forget(self, partition: Partition) -> None:
        """Its backlog is void."""
        self.reservations.take(partition)
        self.backlogs.forget(partition)
        self.acquiring.forget(partition)

    # Something about a member or a partition changed

    def free(self, member: Member, count: int) -> None:
        """It holds so many offsets less; it is offered the backlog again before the step ends."""
        if count:
            member.in_flight -= count
            self.window_limits.update_fullness(member)
            self._freed[member] = None

    def refill(self, member: Member, now: float) -> None:
        """It may take more than before, or is ranked otherwise."""
        self.window_limits.update_fullness(member)
        self.reservations.rank(member, now)
        self._offer_again(self.parked.of(member), now)

    def activate(self, partition: Partition, now: float) -> None:
        """Records of this partition may be given again."""
        for fetch, partition_fetch in partition.parked.items():
            if not self.window_limits.is_full(fetch.member) and fetch not in partition.ineligible:
                self._wait(fetch, partition_fetch, now)
        self.distribute(partition, now)

    def suspend(self, partition: Partition) -> None:
        """No record of this partition may be given."""
        for fetch, partition_fetch in list(partition.waiting.items()):
            self._queue.leave_partition(fetch, partition_fetch)
        partition.ineligible.clear()
        for available in self.reservations.take(partition):
            self.backlogs.put(partition, available)
        self.touched.add(partition)

    def joined(self, member: Member, now: float) -> None:
        """It asks for records for the first time. Who was alone until now is held to its cap from here on."""
        self.members.add(member)
        if len(self.members) == 2:
            for other in self.members:
                other.flow.trusted_with(other.in_flight)
                self.refill(other, now)

    def disconnected(self, member: Member, now: float) -> None:
        """It has lost its connections: the others are given what was kept for it."""
        for partition in self.reservations.end(member):
            self.distribute(partition, now, keeps=False)

    def left(self, member: Member, now: float) -> None:
        self.window_limits.left(member)
        self.quarantine.left(member)
        self.reservations.end(member)
        if len(self.members) == 1:
            other = next(iter(self.members))
            self.reservations.end(other)
            self.refill(other, now)

    def beside_leases(self, are_there: bool, now: float) -> None:
        """Whether batch engines take part: then also who is alone is held to its cap."""
        if self.window_limits.are_there_leases is not are_there:
            self.window_limits.are_there_leases = are_there
            for member in list(self.members):
                self.refill(member, now)

    # How

    def _offer_again(self, fetches: Iterable[Fetch], now: float) -> None:
        for fetch in sorted(fetches, key=lambda fetch: fetch.sequence):
            if fetch.answered:
                continue
            self._queue.leave(fetch)
            blocked = self.fill(fetch, now)
            if fetch.is_satisfied or (blocked and fetch.has_records):
                self.finish(fetch, now)
            else:
                self._admit(fetch, now)

    def _fill_from(self, fetch: Fetch, partition_fetch: PartitionFetch, now: float) -> bool:
        partition, member = partition_fetch.partition, fetch.member
        if self.obstacle(member, partition_fetch) is not None:
            return False
        while not self.window_limits.is_full(member):
            available = self._first_for(fetch, partition)
            if available is None:
                return False
            if not self._take(fetch, partition_fetch, available, now):
                return True
        return False

    def _take(
        self, fetch: Fetch, partition_fetch: PartitionFetch, available: Available, now: float, part: int | None = None
    ) -> int:
        """Give what there is room for of a batch, or of a run; how many offsets, none if there is no room.

        part: offsets; of a run that has more it gets no more, but for a batch that has.
        """
        partition, member = partition_fetch.partition, fetch.member
        if fetch.terms is not None:
            return self._acquire(fetch, fetch.terms, partition_fetch, available, now, part)
        count = fetch.fitting(partition_fetch, available.batch, self._shares.room(member))
        if not count:
            return 0
        if part is not None:
            count = min(count, self._shares.batches(available, part))
        available = self.backlogs.take_some(partition, available, count)
        most = min(self._shares.most(available, member), len(available))
        taken = available if len(available) == most else self.backlogs.put_back_all_but(partition, available, most)
        if taken is not None:  # there may be no record in so many offsets
            self._collect(fetch, partition_fetch, taken, member, now)
        self.wait_for_more(partition, now)
        return most

    def _acquire(
        self,
        fetch: Fetch,
        terms: AcquireTerms,
        partition_fetch: PartitionFetch,
        available: Available,
        now: float,
        part: int | None,
    ) -> int:
        """The same for a share member."""
        partition = partition_fetch.partition
        acquired = self.acquiring.take(fetch, terms, partition_fetch, available, part)
        for each in acquired:
            self._collect(fetch, partition_fetch, each, fetch.member, now)
        self.acquiring.lock(partition, sum(map(len, acquired)), terms.most_locks)
        self.wait_for_more(partition, now)
        return sum(map(len, acquired))

    def _first_for(self, fetch: Fetch, partition: Partition) -> Available | None:
        """The oldest that its member may have, in bytes that it can take as they are."""
        available = self.quarantine.first_for(partition, fetch.member)
        while isinstance(available, View) and fetch.terms is None:
            self.backlogs.cut(partition, available)
            available = self.quarantine.first_for(partition, fetch.member)
        return available

    def wait_for_more(self, partition: Partition, now: float) -> None:
        """Those who stood aside for what was here wait for what comes next."""
        if not partition.backlog:
            ineligible, partition.ineligible = partition.ineligible, {}
            for other, its_partition_fetch in ineligible.items():
                if not self.window_limits.is_full(other.member):
                    self._wait(other, its_partition_fetch, now)

    def _collect(
        self, fetch: Fetch, partition_fetch: PartitionFetch, available: Available, member: Member, now: float
    ) -> None:
        self._served += 1
        member.served = self._served
        member.recent = with_more(member.recent, len(available), now)
        member.in_flight += len(available)
        self.window_limits.update_fullness(member)
        member.flow.sent(now)
        fetch.collect(partition_fetch, available)
        partition_fetch.partition.given = max(partition_fetch.partition.given, available.last)
        self.collected_bytes += available.size
        full = self.window_limits.is_full(member)
        for other in self.parked.of(member):
            if full:
                self._queue.leave(other)
            elif other.rank is not None:
                self._queue.rank(other, now)
        if full and not fetch.is_satisfied:
            self.window_limits.watch(member, now)

    def _admit(self, fetch: Fetch, now: float) -> None:
        member = fetch.member
        if self.window_limits.is_full(member):
            self.window_limits.watch(member, now)
            return
        for partition_fetch in fetch.partition_fetches:
            if partition_fetch.partition.backlog:
                if obstacle_of(partition_fetch, self.is_stopped, self.withheld) is None:
                    partition_fetch.partition.ineligible[fetch] = partition_fetch
            else:
                self._wait(fetch, partition_fetch, now)

    def _wait(self, fetch: Fetch, partition_fetch: PartitionFetch, now: float) -> None:
        """Of a member that is not at its cap."""
        partition = partition_fetch.partition
        if fetch in partition.waiting or obstacle_of(partition_fetch, self.is_stopped, self.withheld) is not None:
            return
        self._queue.enter(fetch, partition_fetch, now)
        if partition.released:
            self.touched.add(partition)  # now it is worth while to read that again
