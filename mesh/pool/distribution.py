"""Who gets which batch.

A batch goes to the best of the Fetches that wait on its partition, or into the backlog; a Fetch takes what the backlogs
of its partitions hold, or waits on them. Whatever makes a parked Fetch eligible again (a commit, a leave, a timer)
offers it the backlog in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from sortedcontainers import SortedDict

from mesh.pool.effects import Effect, GroupId, Report
from mesh.pool.fetching import Fetch, Lane
from mesh.pool.ledger import keep_unsettled
from mesh.pool.member import Member
from mesh.pool.partition import Partition, Standing, Violation
from mesh.pool.settings import Policy, PoolSettings
from mesh.pool.tasting import Tasting
from mesh.pool.timers import Timers
from mesh.pool.window import Available
from mesh.records.batch import is_compressed
from mesh.records.spans import Span

TOGETHER = 0.025
"""Seconds with all windows of a pool full and a backlog, after which the caps of those who ask double."""
FEW = 8
"""So many waiters are compared directly; more are looked up in the order of the whole pool."""


class Obstacle(Enum):
    """Why a Fetch may not have records of a partition, in words for people."""

    NOT_ASSIGNED = "partition not assigned to this process"
    REBALANCE = "upstream rebalance"
    READ_AGAIN = "waits for what is read again"
    AT_CAP = "at its cap"


class Distribution:
    """The waiting Fetches of one pool, in the order of its policy, and the backlogs they take from."""

    def __init__(
        self,
        group: GroupId,
        settings: PoolSettings,
        timers: Timers,
        effects: list[Effect],
        answer: Callable[[Fetch, float], None],
    ) -> None:
        self._group = group
        self._settings = settings
        self._timers = timers
        self._effects = effects
        self._answer = answer
        self._room: SortedDict[tuple[float, int, int], Fetch] = SortedDict()
        self._served = 0
        self._growing: set[Member] = set()
        self._full: set[Member] = set()
        """Members at their caps, or above."""
        self._growing_together = False
        self._freed: dict[Member, None] = {}
        self.tasting = Tasting(settings.redelivery)
        self.members: set[Member] = set()
        """Members that have asked for records and are alive."""
        self.touched: set[Partition] = set()
        """Partitions whose invariant may have changed in this step."""
        self.backlog_bytes = 0
        self.collected_bytes = 0
        """Of what Fetches hold that are not answered yet."""

    @property
    def waiting(self) -> int:
        """How many Fetches may take a batch now."""
        return len(self._room)

    def is_full(self, member: Member) -> bool:
        return member.in_flight >= member.flow.cap and len(self.members) > 1

    def obstacle(self, member: Member, lane: Lane) -> Obstacle | None:
        """What keeps a member from having any record of a partition that it asks for, whether there is one or not."""
        partition = lane.partition
        if partition is None or partition.standing is Standing.ABSENT:
            return Obstacle.NOT_ASSIGNED
        if partition.standing is Standing.SUSPENDED:
            return Obstacle.REBALANCE
        if lane.behind:
            return Obstacle.READ_AGAIN
        return Obstacle.AT_CAP if self.is_full(member) else None

    # A Fetch comes, is answered, or goes

    def fill(self, fetch: Fetch, now: float) -> bool:
        """Let a Fetch take from the backlogs what it may; whether it can take no more of what is there."""
        blocked = False
        self.tasting.asks(fetch, now)
        for lane in fetch.lanes:
            if lane.partition is not None and lane.partition.backlog:
                blocked = self._fill_lane(fetch, lane, now) or blocked
        return blocked

    def park(self, fetch: Fetch, now: float) -> None:
        for lane in fetch.lanes:
            if lane.partition is not None:
                lane.partition.parked[fetch] = lane
        assert fetch.member is not None
        fetch.member.fetches.add(fetch)
        self._admit(fetch, now)

    def remove(self, fetch: Fetch) -> None:
        """It is being answered, or its connection is gone."""
        self._withdraw(fetch)
        for lane in fetch.lanes:
            if lane.partition is not None:
                lane.partition.parked.pop(fetch, None)
        if fetch.member is not None:
            fetch.member.fetches.discard(fetch)
            if fetch.has_records:
                fetch.member.asking = 0

    def give_back(self, fetch: Fetch, lanes: Iterable[Lane]) -> list[Partition]:
        """What was collected for these lanes goes back to where it was taken from, as if it had never been taken."""
        changed: list[Partition] = []
        for lane in lanes:
            if not lane.collected or lane.partition is None:
                continue
            for available in lane.collected:
                self.collected_bytes -= available.size
                self.put(lane.partition, available)
                assert fetch.member is not None
                self.free(fetch.member, len(available))
            fetch.size -= lane.size
            lane.collected, lane.size = None, 0
            changed.append(lane.partition)
        return changed

    # Batches come

    def offer(self, partition: Partition, batches: Iterable[Available], now: float) -> None:
        for available in batches:
            self.put(partition, available)
        self.distribute(partition, now)

    def distribute(self, partition: Partition, now: float) -> None:
        """Give the backlog to those who wait, as far as it goes."""
        self.touched.add(partition)
        if not partition.is_active:
            return
        for fetch in partition.parked if partition.suspects else ():
            self.tasting.asks(fetch, now)
        while partition.backlog and partition.waiting:
            fetch = self._best(partition)
            lane = partition.waiting[fetch]
            assert fetch.member is not None
            available = self.tasting.first_for(partition, fetch.member)
            if available is None:
                self._withdraw_lane(fetch, lane)
                partition.aside[fetch] = lane
            elif not fetch.has_room(lane, available.size):
                self._answer(fetch, now)
            else:
                self._take(fetch, lane, available, now)
                if fetch.is_satisfied:
                    self._answer(fetch, now)
        if partition.backlog and partition.aside:
            self._offer_again(list(partition.aside), now)
        self._grow_together_soon(now)

    def forget(self, partition: Partition) -> None:
        """Its backlog is void."""
        self.backlog_bytes -= partition.backlog_bytes
        partition.clear()
        self.touched.add(partition)

    # Something about a member or a partition changed

    def free(self, member: Member, count: int) -> None:
        """It holds so many offsets less; it is offered the backlog again before the step ends."""
        if count:
            member.in_flight -= count
            self._weigh(member)
            self._freed[member] = None

    def refill_freed(self, now: float) -> None:
        freed, self._freed = self._freed, {}
        for member in freed:
            self.refill(member, now)

    def refill(self, member: Member, now: float) -> None:
        """It may take more than before, or is ranked otherwise."""
        self._weigh(member)
        self._offer_again(member.fetches, now)

    def activate(self, partition: Partition, now: float) -> None:
        """Records of this partition may be given again."""
        for fetch, lane in partition.parked.items():
            if fetch.member is not None and not self.is_full(fetch.member) and fetch not in partition.aside:
                self._wait(fetch, lane, now)
        self.distribute(partition, now)

    def suspend(self, partition: Partition) -> None:
        """No record of this partition may be given."""
        for fetch, lane in list(partition.waiting.items()):
            self._withdraw_lane(fetch, lane)
        partition.aside.clear()
        self.touched.add(partition)

    def joined(self, member: Member, now: float) -> None:
        """It asks for records for the first time. Who was alone until now is held to its cap from here on."""
        self.members.add(member)
        if len(self.members) == 2:
            for other in self.members:
                self.refill(other, now)

    def left(self, member: Member, now: float) -> None:
        self.members.discard(member)
        self._growing.discard(member)
        self._full.discard(member)
        self.tasting.left(member)
        if len(self.members) == 1:
            self.refill(next(iter(self.members)), now)

    # How

    def _offer_again(self, fetches: Iterable[Fetch], now: float) -> None:
        for fetch in sorted(fetches, key=lambda fetch: fetch.sequence):
            if fetch.answered:
                continue
            self._withdraw(fetch)
            blocked = self.fill(fetch, now)
            if fetch.is_satisfied or (blocked and fetch.has_records):
                self._answer(fetch, now)
            else:
                self._admit(fetch, now)

    def put(self, partition: Partition, available: Available) -> None:
        partition.put(available)
        self.backlog_bytes += available.size
        partition.suspects += self.tasting.is_suspected(available)
        self.touched.add(partition)

    def _fill_lane(self, fetch: Fetch, lane: Lane, now: float) -> bool:
        partition, member = lane.partition, fetch.member
        if partition is None or member is None or self.obstacle(member, lane) is not None:
            return False
        while not self.is_full(member):
            available = self.tasting.first_for(partition, member)
            if available is None:
                return False
            if not fetch.has_room(lane, available.size):
                return True
            self._take(fetch, lane, available, now)
        return False

    def _take(self, fetch: Fetch, lane: Lane, available: Available, now: float) -> None:
        partition, member = lane.partition, fetch.member
        assert partition is not None
        assert member is not None
        partition.take(available)
        self.backlog_bytes -= available.size
        partition.suspects -= self.tasting.is_suspected(available)
        self.touched.add(partition)
        most = self._most(available, member)
        taken = available if len(available) <= most else self._cut(partition, available, most)
        if taken is not None:
            self._collect(fetch, lane, taken, member, now)
        if not partition.backlog:
            # Those who stood aside for what was here wait for what comes next.
            aside, partition.aside = partition.aside, {}
            for other, its_lane in aside.items():
                self._wait(other, its_lane, now)

    def _collect(self, fetch: Fetch, lane: Lane, available: Available, member: Member, now: float) -> None:
        self._served += 1
        member.served = self._served
        member.in_flight += len(available)
        self._weigh(member)
        member.flow.sent(now)
        fetch.collect(lane, available)
        self.collected_bytes += available.size
        full = self.is_full(member)
        for other in member.fetches:
            if full:
                self._withdraw(other)
            elif other.rank is not None:
                self._rank(other, now)
        if full and not fetch.is_satisfied:
            self._watch(member, now)

    def _most(self, available: Available, member: Member) -> int:
        """How many offsets of a batch may be given at once."""
        if self.tasting.is_suspected(available):
            return (len(available) + 1) // 2
        if len(self.members) < 2 or is_compressed(available.batch):
            return len(available)
        return member.flow.cap

    def _cut(self, partition: Partition, available: Available, size: int) -> Available | None:
        """The first part of a batch; the rest goes back. None when there is no record in it."""
        batch, middle = available.batch, available.batch.first + size
        spans = [Span(batch.first, middle - 1), Span(middle, batch.last)]
        parts = [
            Available(piece, available.history, available.shunned)
            for piece in keep_unsettled(partition.ledger, batch, spans)
        ]
        for part in parts:
            if part.batch.first >= middle:
                self.put(partition, part)
        return next((part for part in parts if part.batch.first < middle), None)

    def _best(self, partition: Partition) -> Fetch:
        waiting = partition.waiting
        if len(waiting) <= FEW:
            return min(waiting, key=lambda fetch: fetch.rank or (0.0, 0, 0))
        best: Fetch | None = next((fetch for fetch in self._room.values() if fetch in waiting), None)
        if best is not None:
            return best
        raise Violation(f"{partition.source}: {len(waiting)} fetches wait and none of them is in the waiting room")

    def _admit(self, fetch: Fetch, now: float) -> None:
        member = fetch.member
        assert member is not None
        if self.is_full(member):
            self._watch(member, now)
            return
        for lane in fetch.lanes:
            if lane.partition is not None and lane.partition.backlog:
                if self.obstacle(member, lane) is None:
                    lane.partition.aside[fetch] = lane
            else:
                self._wait(fetch, lane, now)

    def _wait(self, fetch: Fetch, lane: Lane, now: float) -> None:
        partition, member = lane.partition, fetch.member
        if partition is None or member is None or fetch in partition.waiting:
            return
        if self.obstacle(member, lane) is not None:
            return
        partition.waiting[fetch] = lane
        fetch.waiting += 1
        self.touched.add(partition)
        if fetch.rank is None:
            self._rank(fetch, now)

    def _rank(self, fetch: Fetch, now: float) -> None:
        member = fetch.member
        assert member is not None
        if fetch.rank is not None:
            del self._room[fetch.rank]
        match self._settings.policy:
            case Policy.LEAST_LOADED:
                load = member.flow.load(member.in_flight, now)
                fetch.rank = (load, member.served, fetch.sequence)
            case Policy.ROUND_ROBIN:
                fetch.rank = (0.0, member.served, fetch.sequence)
            case Policy.OLDEST_FIRST:
                # Since when its member asks, not this Fetch: one with a short max_wait asks again and again.
                member.asking = member.asking or fetch.sequence
                fetch.rank = (0.0, member.asking, fetch.sequence)
        self._room[fetch.rank] = fetch

    def _withdraw(self, fetch: Fetch) -> None:
        for lane in fetch.lanes:
            if lane.partition is not None:
                lane.partition.waiting.pop(fetch, None)
                lane.partition.aside.pop(fetch, None)
        fetch.waiting = 0
        if fetch.rank is not None:
            del self._room[fetch.rank]
            fetch.rank = None

    def _withdraw_lane(self, fetch: Fetch, lane: Lane) -> None:
        assert lane.partition is not None
        del lane.partition.waiting[fetch]
        fetch.waiting -= 1
        if not fetch.waiting and fetch.rank is not None:
            del self._room[fetch.rank]
            fetch.rank = None

    def _watch(self, member: Member, now: float) -> None:
        self._grow_together_soon(now)
        when = member.flow.asked_while_full(now)
        if member not in self._growing:
            self._growing.add(member)
            self._timers.at(max(when, now), lambda then: self._grow(member, then))

    def _grow(self, member: Member, now: float) -> None:
        if member not in self._growing:
            return
        self._growing.discard(member)
        if not member.fetches or not self.is_full(member):
            return
        if member.flow.grow(self.waiting > 0, now):
            self._grown(member, now)
        if member.fetches and self.is_full(member):
            self._watch(member, now)

    def _grown(self, member: Member, now: float) -> None:
        if member.flow.is_overdue(now):
            fields = {"group": self._group, "member": member.name, "in_flight": member.in_flight}
            self._effects.append(Report("a member at its cap has never committed", fields, "warning"))
        self.refill(member, now)

    def _weigh(self, member: Member) -> None:
        if member.in_flight >= member.flow.cap and member in self.members:
            self._full.add(member)
        else:
            self._full.discard(member)

    def _grow_together_soon(self, now: float) -> None:
        """When every window is full and records wait, caps protect nobody from anybody: all of them are too small."""
        if not self._growing_together and self._are_all_full:
            self._growing_together = True
            self._timers.at(now + TOGETHER, self._grow_together)

    @property
    def _are_all_full(self) -> bool:
        return self.backlog_bytes > 0 and 1 < len(self.members) == len(self._full)

    def _grow_together(self, now: float) -> None:
        self._growing_together = False
        asking = [member for member in self.members if member.fetches and member.flow.may_double]
        if not self._are_all_full or not asking:
            return
        for member in asking:
            member.flow.double()
        for member in sorted(asking, key=lambda member: member.served):
            self._grown(member, now)
