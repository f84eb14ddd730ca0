"""The members of one pool that ask for records, and how much each of them may hold.

The cap of one member follows what it commits (`flow`). Here is when it grows for other reasons: it was full for long,
or all of them are, or there is enough for all (docs/decisions/0005, 0014, 0045 and 0055).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.backlogs import Backlogs
from mesh.pool.distribution.fetch_queue import FetchQueue
from mesh.pool.state.flow import SHORTEST_SUPPLY
from mesh.pool.state.member import Member
from mesh.pool.state.partition import NO_LIMIT, Partition
from mesh.records.spans import UpstreamPartition

TOGETHER = 0.025
"""Seconds with a full window, and more in the logs than others have room for, after which the cap of one that asks
doubles; the first time it may be later (`flow.FIRST_TRIAL`)."""
TOGETHER_UNKNOWN = 0.005
"""The same while nobody has committed."""


class WindowLimits:
    """How much each member may hold. Timers let that grow; then the members are offered the backlog (`take_grown`)."""

    def __init__(
        self,
        parts: PoolParts,
        queue: FetchQueue,
        backlogs: Backlogs,
        partitions: Mapping[UpstreamPartition, Partition],
    ) -> None:
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._queue = queue
        self._backlogs = backlogs
        self._partitions = partitions
        self._grown: dict[Member, None] = {}
        """Those that may hold more since a timer was due."""
        self._tried: list[Member] = []
        """Those that were looked at when all were to grow together."""
        self.members: set[Member] = set()
        """Those that have asked for records and are alive."""
        self._full: set[Member] = set()
        """Members at their caps, or above."""
        self._growing: set[Member] = set()
        self._growing_together = False
        self.are_there_leases = False
        """Whether batch engines take part beside the members."""

    @property
    def are_kept(self) -> bool:
        """Who is alone has no cap: nobody would have what it leaves (docs/decisions/0033)."""
        return self.are_there_leases or len(self.members) > 1

    def is_full(self, member: Member) -> bool:
        return member.in_flight >= member.flow.cap and self.are_kept

    def update_fullness(self, member: Member) -> None:
        """What a member holds has changed, or its cap."""
        if member.in_flight >= member.flow.cap and member in self.members:
            self._full.add(member)
        else:
            self._full.discard(member)

    def left(self, member: Member) -> None:
        self.members.discard(member)
        self._growing.discard(member)
        self._full.discard(member)

    def watch(self, member: Member, now: float) -> None:
        """It asks for more with a full window."""
        self.grow_together_soon(now)
        when = member.flow.asked_while_full(now)
        if member not in self._growing:
            self._growing.add(member)
            self._timers.at(max(when, now), lambda then: self._grow(member, then))

    def grow_together_soon(self, now: float) -> None:
        """When every window is full and records wait, caps protect nobody from anybody: all of them are too small. So
        is one that is full when the logs hold more than the others have room for: nobody would find less."""
        if self._growing_together or not self._full or len(self.members) < 2:
            return
        self._growing_together = True
        unknown = all(member.flow.never_committed for member in self.members)
        self._timers.at(now + (TOGETHER_UNKNOWN if unknown else TOGETHER), self._grow_together)

    def take_grown(self) -> Iterable[Member]:
        """The members that may hold more since a timer was due; call `were_offered` when each has had its turn."""
        grown, self._grown = self._grown, {}
        return grown

    def were_offered(self, now: float) -> None:
        """Members that have grown were offered the backlog: only now it is known which of them are full."""
        tried, self._tried = self._tried, []
        if any(member.flow.is_tried(now) for member in tried):
            self.grow_together_soon(now)  # they may have more as time passes

    def _grow(self, member: Member, now: float) -> None:
        if member not in self._growing:
            return
        self._growing.discard(member)
        if not member.parked or not self.is_full(member):
            return
        if member.flow.grow(self._queue.size > 0, now):
            self._has_grown(member, now)
        if member.parked and self.is_full(member):
            self.watch(member, now)

    def _has_grown(self, member: Member, now: float) -> None:
        if member.flow.is_overdue(now):
            fields = {"member": member.name, "in_flight": member.in_flight}
            self._outbox.report("a member at its cap has never committed", fields, "warning")
        self._grown[member] = None

    def _grow_together(self, now: float) -> None:
        self._growing_together = False
        asking = [member for member in self._full if member.parked and member.flow.may_grow_from < math.inf]
        left = self._left() if asking and len(self.members) > 1 else 0
        if left <= 0:
            return
        limits = self._limits(asking, now)
        if limits:
            part = -(-left // len(limits))
            for member, limit in limits.items():
                member.flow.double(min(member.in_flight + part, limit))
            for member in sorted(limits, key=lambda member: member.served):
                self._has_grown(member, now)
        self._tried = asking

    def _left(self) -> int:
        """How many offsets of what waits, and of what stands in the logs, are left by those who are not full: what of
        their room they work off in a second."""
        left = self._backlogs.offsets + self._unread()
        for member in self.members - self._full:
            if member.share is not None:
                continue  # it takes what it asks for, whatever it holds
            room, flow = member.flow.cap - member.in_flight, member.flow
            left -= min(room, round(flow.pace * SHORTEST_SUPPLY)) if flow.keeps_up else room
        return left

    def _unread(self) -> int:
        """Offsets that stand in the logs and have not come yet."""
        return sum(max(each.end - each.ledger.received, 0) for each in self._partitions.values() if each.is_active)

    def _limits(self, asking: Iterable[Member], now: float) -> dict[Member, int]:
        """How large the windows of these may be, of those that may grow.

        Where all are full, as large as they like. Else somebody is at work, and would have less if others turned out
        slow: until anybody has committed, twice the smallest window of those at work, whose equal work may not be over
        yet; then as large as if they were as quick as those that keep up, while it is not known how quick they are.
        """
        at_work = [each.flow for each in self.members - self._full if each.share is None and not each.flow.is_slow]
        known = [member.flow for member in self.members if member.flow.keeps_up]
        limits: dict[Member, int] = {}
        for member in asking:
            flow = member.flow
            if flow.may_grow_from > now:
                continue
            if not at_work and not (known and flow.never_committed):
                limit = NO_LIMIT
            elif not known:
                limit = 2 * min(other.cap for other in at_work)
            elif flow.is_tried(now) or not at_work:
                limit = flow.as_if_quick(max(each.cap for each in known), max(each.pace for each in known), now)
            else:
                limit = 0
            if limit > flow.cap:
                limits[member] = limit
        return limits
