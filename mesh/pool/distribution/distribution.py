"""Distributes batches to members.

Every batch enters the backlog of its partition. At the end of the step it goes from there to the best of the Fetches
that wait on the partition. A Fetch takes records from the backlogs of its partitions, or waits on them. Every event
that makes a parked Fetch eligible again (a commit, a leave, a timer) offers it the backlog in the same step. Nothing is
answered here: Fetches that have enough are put into `complete`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.sharing import Sharing
from mesh.pool.distribution.acquiring import Acquiring
from mesh.pool.distribution.backlogs import Backlogs
from mesh.pool.distribution.fetch_queue import FetchQueue, with_more
from mesh.pool.distribution.limits import PoolLimits
from mesh.pool.distribution.obstacles import Obstacle, obstacle_of
from mesh.pool.distribution.parked_fetches import ParkedFetches
from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.reservations import PLENTY, Reservations
from mesh.pool.distribution.shares import Shares
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.distribution.topic_priorities import TopicPriorities
from mesh.pool.distribution.weights import Weights
from mesh.pool.distribution.window_limits import WindowLimits
from mesh.pool.state.fetch import AcquireTerms
from mesh.pool.state.member import Member
from mesh.pool.state.partition import NO_LIMIT, Fetch, Partition, PartitionFetch
from mesh.pool.state.window import Available, View
from mesh.records.spans import ClusterName, UpstreamPartition


class Distribution:
    """The parked Fetches of one pool, and the backlogs from which they take.

    touched: partitions that may have changed in this step, so that their invariants have to be checked.
    """

    def __init__(
        self,
        parts: PoolParts,
        slicing: Slicing,
        partitions: Mapping[UpstreamPartition, Partition],
        parked: dict[Ticket, Fetch],
    ) -> None:
        self._partitions = partitions
        self.parked = ParkedFetches(parked)
        self.complete: deque[Fetch] = deque()
        """Complete Fetches, in the order in which they became complete. `Serving` answers them."""
        self._queue = FetchQueue(parts.settings.policy)
        self._served = 0
        self._freed: dict[Member, None] = {}
        self._with_records: dict[Partition, None] = {}
        """Partitions that got records in this step."""
        self._satisfied: dict[Fetch, int] = {}
        """Fetches that have what they asked for and may get more in this step, with the offsets that each got."""
        self.quarantine = Quarantine(parts.settings.redelivery)
        self.backlogs = Backlogs(self.quarantine, slicing)
        self.touched = self.backlogs.touched
        self.window_limits = WindowLimits(parts, self._queue, self.backlogs, partitions)
        self.limits = PoolLimits(parts, self.window_limits.members)
        self.weights = Weights(parts, self.window_limits.members)
        self.priorities = TopicPriorities(parts)
        self._shares = Shares(self.window_limits, self.quarantine, self.limits, self.weights)
        self.acquiring = Acquiring(self.backlogs, self.quarantine, self._queue, self.window_limits.members)
        self.reservations = Reservations(parts, self.window_limits, self.quarantine, self._shares, self.backlogs)
        self.is_stopped = False
        """True if no records may be delivered at all."""
        self.withheld: set[ClusterName] = set()
        """Clusters whose records may not be delivered."""
        self.collected_bytes = 0
        """The bytes that unanswered Fetches have collected."""

    @property
    def waiting(self) -> int:
        """The number of Fetches that may take a batch now."""
        return self._queue.size

    @property
    def members(self) -> set[Member]:
        """The living members that have asked for records."""
        return self.window_limits.members

    @property
    def fetches(self) -> list[Fetch]:
        """The parked Fetches, in the order of their arrival."""
        fetches = (fetch for member in self.members for fetch in self.parked.of(member))
        return sorted(fetches, key=lambda fetch: fetch.sequence)

    def obstacle(self, member: Member, partition_fetch: PartitionFetch) -> Obstacle | None:
        """Returns the reason why a member may not get any records of a partition now, whether there are any or not.
        None if it may."""
        obstacle = obstacle_of(partition_fetch, self.is_stopped, self.withheld)
        if obstacle is None and self.window_limits.is_full(member):
            return Obstacle.HELD_BACK if member.is_held_back else Obstacle.AT_CAP
        return obstacle

    # Arrival and end of Fetches

    def fill(self, fetch: Fetch, now: float) -> bool:
        """Lets a Fetch take from the backlogs. Returns True if the Fetch itself can take no more: the next batch does
        not fit, or it has enough. A member at its cap does not count."""
        blocked = False
        self.quarantine.update_trial(fetch, now)
        if self.priorities.are_used:
            return self._fill_in_order(fetch, now)
        for partition_fetch in fetch.partition_fetches:
            if partition_fetch.partition.backlog:
                blocked = self._fill_from(fetch, partition_fetch, now) or blocked
                if fetch.has_enough:
                    return True
        return blocked

    def _fill_in_order(self, fetch: Fetch, now: float) -> bool:
        """Does the same as `fill`, in the order of the topics' priorities."""
        blocked = False
        in_order = self.priorities.in_order(fetch.partition_fetches)
        for priority, partition_fetches in in_order:
            before = fetch.size
            for partition_fetch in partition_fetches:
                blocked = self._fill_from(fetch, partition_fetch, now) or blocked
            if fetch.size > before:
                self.priorities.took(priority, fetch.size - before, [each for each, _ in in_order])
        return blocked

    def park(self, fetch: Fetch, now: float) -> None:
        self.parked.add(fetch)
        self._admit(fetch, now)

    def finish(self, fetch: Fetch, now: float) -> None:
        """Completes a Fetch: it gets no more records. From now on its member is between two Fetches."""
        if fetch.answered:
            return
        self.remove(fetch)
        self.complete.append(fetch)
        # Before more records are distributed: some may be reserved for this member, which will ask again soon.
        self.reservations.begin(fetch.member, now)

    def remove(self, fetch: Fetch) -> None:
        """Removes a Fetch that is complete, or whose connection has ended."""
        fetch.answered = True
        if fetch.ticket in fetch.member.parked:  # most Fetches that find a backlog are answered without parking
            self._queue.leave(fetch)
            self._satisfied.pop(fetch, None)
            self.parked.remove(fetch)
        if fetch.has_records:
            fetch.member.asking = 0

    def give_back(self, fetch: Fetch, partition_fetches: Iterable[PartitionFetch]) -> list[Partition]:
        """Puts the records collected for these partitions back into the backlogs. What the member got lately still
        counts them. Returns the partitions that changed."""
        changed: list[Partition] = []
        for partition_fetch in partition_fetches:
            if not partition_fetch.collected:
                continue
            for available in partition_fetch.collected:
                self.collected_bytes -= available.size
                self.backlogs.put(partition_fetch.partition, available)
                self.free(fetch.member, len(available))
                fetch.offsets -= len(available)
                if fetch.terms is not None:
                    self.acquiring.unlock(partition_fetch.partition, len(available))
            fetch.size -= partition_fetch.size
            partition_fetch.collected, partition_fetch.size = None, 0
            changed.append(partition_fetch.partition)
        return changed

    # Arrival of batches

    def note_records(self, partition: Partition) -> None:
        """Notes a partition with new records. Its backlog is distributed when the step ends, together with all
        others."""
        self._with_records[partition] = None
        self.touched.add(partition)

    def end_step(self, now: float) -> None:
        """Distributes new records, offers records to members that hold fewer now, and completes the Fetches that have
        enough."""
        self._shares.begin_step()
        while (
            self._with_records or self._freed or self._satisfied or self.acquiring.unlocked or self.limits.have_changed
        ):
            with_records, self._with_records = self._with_records, {}
            # An equal share is computed over all partitions: one answer of a broker has records of several. If each
            # partition were shared out by itself, a few records would complete a Fetch.
            share = self._shares.equal_share(sum(partition.backlog_offsets for partition in with_records))
            if self.priorities.are_used:
                with_records = dict.fromkeys(sorted(with_records, key=lambda each: -each.priority))
            for partition in with_records:
                self.distribute(partition, now, share=share)
            # After the new records: members that waited with room come before members that have just made room.
            freed, self._freed = self._freed, {}
            freed.update(dict.fromkeys(self.limits.take_released(now)))
            for member in freed:
                self.refill(member, now)
            for partition in self.acquiring.take_unlocked():
                self._offer_again([each for each in partition.parked if each.terms is not None], now)
            # Finish them last, when they cannot get any more in this step.
            satisfied, self._satisfied = self._satisfied, {}
            for fetch in satisfied:
                self.finish(fetch, now)

    def catch_up(self, now: float) -> None:
        """Offers the records that a timer has put back, and the backlog to members that may hold more since."""
        returned, self.reservations.returned = self.reservations.returned, []
        for partition in returned:
            self.distribute(partition, now, may_reserve=False)
        for member in (*self.window_limits.take_grown(), *self.limits.take_released(now)):
            self.refill(member, now)
        self.window_limits.were_offered(now)

    def distribute(self, partition: Partition, now: float, may_reserve: bool = True, share: int | None = None) -> None:
        """Distributes the backlog of a partition to waiting Fetches. may_reserve: whether records may be reserved for
        members that had less, and are about to ask again. share: the offsets of an equal share; by default of this
        backlog."""
        self.touched.add(partition)
        if not partition.is_active:
            return
        # Choose the member on trial first: it gets the suspected batches, and others get the rest.
        for parked in partition.parked if partition.suspects else ():
            self.quarantine.update_trial(parked, now)
        # Computed once: otherwise the shares would shrink with each Fetch that is served.
        share = share or self._shares.equal_share(partition.backlog_offsets)
        may_reserve = may_reserve and not self.is_stopped and partition.backlog_bytes < PLENTY
        while partition.backlog:
            # Look up the best Fetch for each batch: a member's rank changes with what it gets.
            fetch = self._queue.best(partition) if partition.waiting else None
            # A member between two Fetches may come before the best waiting Fetch. Otherwise a slower client would never
            # find records when it asks.
            if may_reserve and self.reservations.reserve_oldest(partition, fetch, now):
                self.requeue_ineligible(partition, now)
                continue
            if fetch is None:
                break
            self._give(fetch, partition.waiting[fetch], share, now)
        # Some Fetches were ineligible for the earlier batches. Try them again.
        if partition.backlog and partition.ineligible:
            self._offer_again(list(partition.ineligible), now)
        # If records are left because all windows are full, all caps are too small.
        self.window_limits.grow_together_soon(now)

    def _give(self, fetch: Fetch, partition_fetch: PartitionFetch, share: int, now: float) -> None:
        """Gives the oldest allowed records of a partition to a Fetch that waits on it; of a run at most the member's
        share.

        A Fetch that is satisfied and has its share is completed: other members are at work, and get their shares when
        they ask. Until then it may get more, even if it has all that it asked for.
        """
        partition = partition_fetch.partition
        available = self._cut_first_for(fetch, partition)
        if available is None:
            if partition.backlog:  # empty by now if its offsets had no record
                self._queue.leave_partition(fetch, partition_fetch)
                partition.ineligible[fetch] = partition_fetch
            return
        share = self._shares.share_for(fetch.member, share, now)
        taken = self._take(fetch, partition_fetch, available, now, share)
        had = self._satisfied.get(fetch, 0) + taken
        # A further batch of this size would exceed the share by more than the Fetch is short of it now.
        if not taken or (fetch.is_satisfied and had + taken // 2 >= share):
            self.finish(fetch, now)
        elif fetch.is_satisfied:
            self._satisfied[fetch] = had

    def forget(self, partition: Partition) -> None:
        """Forgets the backlog, the reservations and the acquired records of a partition, because they are void."""
        self.reservations.take(partition)
        self.backlogs.forget(partition)
        self.acquiring.forget(partition)

    # Changes of a member or a partition

    def free(self, member: Member, count: int) -> None:
        """Notes that a member holds fewer offsets. The member is offered the backlog again before the step ends."""
        if count:
            member.in_flight -= count
            if member.limiters:
                self.limits.freed(member, count)
            self.window_limits.update_fullness(member)
            self._freed[member] = None

    def refill(self, member: Member, now: float) -> None:
        """Offers the backlog to a member that may take more than before, or whose rank has changed."""
        self.window_limits.update_fullness(member)
        self.reservations.rank(member, now)
        self._offer_again(self.parked.of(member), now)

    def activate(self, partition: Partition, now: float) -> None:
        """Lets the parked Fetches wait on a partition that is assigned, and distributes its backlog."""
        for fetch, partition_fetch in partition.parked.items():
            if not self.window_limits.is_full(fetch.member) and fetch not in partition.ineligible:
                self._wait(fetch, partition_fetch, now)
        self.distribute(partition, now)

    def suspend(self, partition: Partition) -> None:
        """Takes the waiting Fetches and the reservations off a partition, until `activate`."""
        for fetch, partition_fetch in list(partition.waiting.items()):
            self._queue.leave_partition(fetch, partition_fetch)
        partition.ineligible.clear()
        for available in self.reservations.take(partition):
            self.backlogs.put(partition, available)
        self.touched.add(partition)

    def joined(self, member: Member, now: float) -> None:
        """Adds a member that asks for records for the first time. A member that was alone until now has a cap from now
        on."""
        self.members.add(member)
        self.weights.joined(member)
        self.limits.joined(member, now)
        self._hold_back()
        if len(self.members) == 2:
            for other in self.members:
                other.flow.granted_without_cap(other.in_flight)
                self.refill(other, now)

    def disconnected(self, member: Member, now: float) -> None:
        """Notes that a member has lost its connections. Other members get the records that were reserved for it."""
        for partition in self.reservations.end(member):
            self.distribute(partition, now, may_reserve=False)

    def left(self, member: Member, now: float) -> None:
        self.window_limits.left(member)
        self.weights.left()
        self.limits.left(member, now)
        self._hold_back()
        self.quarantine.left(member)
        self.reservations.end(member)
        if len(self.members) == 1:
            other = next(iter(self.members))
            self.reservations.end(other)
            self.refill(other, now)

    def beside_leases(self, are_there: bool, now: float) -> None:
        """Sets whether batch engines lease records of the pool. If so, a member that is alone has a cap, too."""
        if self.window_limits.are_there_leases is not are_there:
            self.window_limits.are_there_leases = are_there
            for member in list(self.members):
                self.refill(member, now)

    def change_sharing(self, sharing: Sharing, now: float) -> None:
        """Applies changed weights, limits and priorities."""
        self.priorities.change(sharing, self._partitions.values())
        self.limits.change(sharing, now)
        self._hold_back()
        members = list(self.members) if self.weights.change(sharing) else self.limits.take_released(now)
        for member in members:
            self.refill(member, now)

    # Internals

    def _hold_back(self) -> None:
        """Removes the Fetches of members that limits hold back from now on from the queue."""
        for member in self.limits.take_held_back():
            for fetch in self.parked.of(member):
                self._queue.leave(fetch)

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
        while not (self.window_limits.is_full(member) or fetch.has_enough):
            available = self._cut_first_for(fetch, partition)
            if available is None:
                return False
            if not self._take(fetch, partition_fetch, available, now):
                return True
        return fetch.has_enough

    def _take(
        self, fetch: Fetch, partition_fetch: PartitionFetch, available: Available, now: float, share: int | None = None
    ) -> int:
        """Gives as much of a batch or run as fits. Returns the number of offsets, 0 if there is no room.

        share: the most offsets of a run. A single batch is not cut to it.
        """
        partition, member = partition_fetch.partition, fetch.member
        if fetch.terms is not None:
            return self._acquire(fetch, fetch.terms, partition_fetch, available, now, share)
        count = fetch.fitting(partition_fetch, available.batch, self._shares.room(member, now))
        if not count:
            return 0
        if share is not None:
            count = min(count, self._shares.batches_for(available, share))
        available = self.backlogs.take_some(partition, available, count)
        most = min(self._shares.most_offsets(available, member, now), len(available))
        taken = available if len(available) == most else self.backlogs.put_back_all_but(partition, available, most)
        if taken is not None:  # these offsets may have no record
            self._collect(fetch, partition_fetch, taken, member, now)
        self.requeue_ineligible(partition, now)
        return most

    def _acquire(
        self,
        fetch: Fetch,
        terms: AcquireTerms,
        partition_fetch: PartitionFetch,
        available: Available,
        now: float,
        share: int | None,
    ) -> int:
        """Does the same as `_take` for a share member."""
        partition = partition_fetch.partition
        room = self._shares.room(fetch.member, now) if fetch.member.limiters else NO_LIMIT
        acquired = self.acquiring.take(fetch, terms, partition_fetch, available, share, room)
        for each in acquired:
            self._collect(fetch, partition_fetch, each, fetch.member, now)
        self.acquiring.lock(partition, sum(map(len, acquired)), terms.most_locks)
        self.requeue_ineligible(partition, now)
        return sum(map(len, acquired))

    def _cut_first_for(self, fetch: Fetch, partition: Partition) -> Available | None:
        """Returns the oldest records that the member of a Fetch may have, with bytes that it can take as they are:
        views at the front of the backlog are cut into batches first, except for share members."""
        available = self.quarantine.first_for(partition, fetch.member)
        while isinstance(available, View) and fetch.terms is None:
            self.backlogs.cut(partition, available)
            available = self.quarantine.first_for(partition, fetch.member)
        return available

    def requeue_ineligible(self, partition: Partition, now: float) -> None:
        """Lets members that were ineligible for the previous records of a partition wait for the next ones."""
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
        self._shares.gave(member, len(available), now)
        member.in_flight += len(available)
        self.window_limits.update_fullness(member)
        member.flow.sent(now)
        fetch.collect(partition_fetch, available)
        partition_fetch.partition.highest_given = max(partition_fetch.partition.highest_given, available.last)
        self.collected_bytes += available.size
        if self.limits.are_used:
            self.limits.took(member, len(available), available.size, now)
            self._hold_back()
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
        """Lets a Fetch wait on a partition. Its member must be below its cap."""
        partition = partition_fetch.partition
        if fetch in partition.waiting or obstacle_of(partition_fetch, self.is_stopped, self.withheld) is not None:
            return
        self._queue.enter(fetch, partition_fetch, now)
        if partition.released:
            self.touched.add(partition)  # a Fetch now waits for the released spans
