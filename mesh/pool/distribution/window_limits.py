"""The members of one pool that ask for records, and how much each may hold.

The cap of one member follows its commits (`flow`). This module raises caps for other reasons: a window was full for
long, all windows are full, or there is enough for all (docs/decisions/0005, 0014, 0045 and 0055).
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
"""Seconds with a full window after which a member's cap doubles, while the logs hold more than others have room for.
The first time may be later (`flow.FIRST_TRIAL`)."""
TOGETHER_UNKNOWN = 0.005
"""The same before any member has committed."""


class WindowLimits:
    """The limits of the members' windows. Timers raise them; then the members are offered the backlog
    (`take_grown`)."""

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
        """Members whose cap a timer has raised."""
        self._asked_to_grow: list[Member] = []
        """Members that asked for more when all caps were last raised together."""
        self.members: set[Member] = set()
        """The living members that have asked for records."""
        self._full: set[Member] = set()
        """Members at or above their caps."""
        self._growing: set[Member] = set()
        self._growing_together = False
        self.are_there_leases = False
        """True if batch engines lease records of the pool."""

    @property
    def are_kept(self) -> bool:
        """True if caps apply. A member that is alone has none, since no other member would get the rest
        (docs/decisions/0033)."""
        return self.are_there_leases or len(self.members) > 1

    def is_full(self, member: Member) -> bool:
        return (member.in_flight >= member.flow.cap and self.are_kept) or member.is_held_back

    def update_fullness(self, member: Member) -> None:
        """Updates whether a member is at its cap, after a change of the cap or of its records in flight."""
        if member.in_flight >= member.flow.cap and member in self.members:
            self._full.add(member)
        else:
            self._full.discard(member)

    def left(self, member: Member) -> None:
        self.members.discard(member)
        self._growing.discard(member)
        self._full.discard(member)

    def watch(self, member: Member, now: float) -> None:
        """Watches a member that asks for more with a full window."""
        if member.is_held_back:
            return  # its full window does not show that its cap is too small
        self.grow_together_soon(now)
        when = member.flow.asked_while_full(now)
        if member not in self._growing:
            self._growing.add(member)
            self._timers.at(max(when, now), lambda then: self._grow(member, then))

    def grow_together_soon(self, now: float) -> None:
        """Sets a timer that raises caps. When every window is full and records wait, caps protect no member: all are
        too small. A full window is also too small when the logs hold more than the others have room for."""
        if self._growing_together or not self._full or len(self.members) < 2:
            return
        self._growing_together = True
        unknown = all(member.flow.never_committed for member in self.members)
        self._timers.at(now + (TOGETHER_UNKNOWN if unknown else TOGETHER), self._grow_together)

    def take_grown(self) -> Iterable[Member]:
        """Returns the members whose cap has grown since the last call. Call `were_offered` after each was offered the
        backlog."""
        grown, self._grown = self._grown, {}
        return grown

    def were_offered(self, now: float) -> None:
        """Notes that members whose caps grew have been offered the backlog. Only now it is known which of them are
        full."""
        asking, self._asked_to_grow = self._asked_to_grow, []
        if any(member.flow.is_newly_limited(now) for member in asking):
            self.grow_together_soon(now)  # others may get more as time passes

    def _grow(self, member: Member, now: float) -> None:
        if member not in self._growing:
            return
        self._growing.discard(member)
        if not member.parked or not self.is_full(member) or member.is_held_back:
            return
        if member.flow.grow_if_due(self._queue.size > 0, now):
            self._has_grown(member, now)
        if member.parked and self.is_full(member):
            self.watch(member, now)

    def _has_grown(self, member: Member, now: float) -> None:
        if member.flow.take_overdue(now):
            fields = {"member": member.name, "in_flight": member.in_flight}
            self._outbox.report("member at its cap has never committed", fields, "warning")
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
                member.flow.double_up_to(min(member.in_flight + part, limit))
            for member in sorted(limits, key=lambda member: member.served):
                self._has_grown(member, now)
        self._asked_to_grow = asking

    def _left(self) -> int:
        """Returns the offsets, waiting and in the logs, beyond what members that are not full can process in a
        second."""
        left = self._backlogs.offsets + self._unread()
        for member in self.members - self._full:
            if member.share is not None:
                continue  # a share member takes all that it asks for, without a cap
            room, flow = member.flow.cap - member.in_flight, member.flow
            left -= min(room, round(flow.pace * SHORTEST_SUPPLY)) if flow.keeps_up else room
        return left

    def _unread(self) -> int:
        """Returns the offsets that are in the logs and have not been received."""
        return sum(max(each.end - each.ledger.received, 0) for each in self._partitions.values() if each.is_active)

    def _limits(self, asking: Iterable[Member], now: float) -> dict[Member, int]:
        """Returns the limits up to which the windows of these members may grow.

        If all members are full, there is no limit. Otherwise some are at work, and would get less if these members
        turned out to be slow. Until a member has committed, the limit is twice the smallest window of those at work,
        since they may not be done with an equal amount yet. Later a member of unknown pace is treated as if it were as
        quick as those that keep up.
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
            elif flow.is_newly_limited(now) or not at_work:
                limit = flow.cap_if_quick(max(each.cap for each in known), max(each.pace for each in known), now)
            else:
                limit = 0
            if limit > flow.cap:
                limits[member] = limit
        return limits
