"""The members of one pool that ask for records, and how much each of them may hold.

The cap of one member follows what it commits (`flow`). Here is when it grows for other reasons: it was full for long,
or all of them are, or there is enough for all (docs/decisions/0005, 0014 and 0045).
"""

from __future__ import annotations

from collections.abc import Callable

from mesh.pool.effects import Effect, Report
from mesh.pool.ids import GroupId
from mesh.pool.member import Member
from mesh.pool.partition import NO_LIMIT
from mesh.pool.timers import Timers

TOGETHER = 0.025
"""Seconds with full windows, and a backlog that nobody else has room for, after which caps of those who ask double."""
TOGETHER_UNKNOWN = 0.005
"""The same while nobody has committed, after the first time."""
FIRST_TOGETHER = 0.1
"""The same for the first time, before anybody has committed: who commits every poll has done so by then, and is told
apart from who does not (docs/decisions/0043)."""


class Caps:
    """do_others_wait: whether somebody under its cap waits. waiting: how many offsets do. unread: how many stand in the
    logs behind those, as far as is known.
    refill: offers a member the backlog again, since it may hold more."""

    def __init__(
        self,
        group: GroupId,
        timers: Timers,
        effects: list[Effect],
        do_others_wait: Callable[[], bool],
        waiting: Callable[[], int],
        unread: Callable[[], int],
        refill: Callable[[Member, float], None],
    ) -> None:
        self._group = group
        self._timers = timers
        self._effects = effects
        self._do_others_wait = do_others_wait
        self._waiting = waiting
        self._unread = unread
        self._refill = refill
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

    def weigh(self, member: Member) -> None:
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
        if self._growing_together or not self._full or not self._waiting() or len(self.members) < 2:
            return
        self._growing_together = True
        unknown = all(member.flow.never_committed for member in self.members)
        is_first = unknown and all(member.flow.is_new for member in self.members)
        patience = FIRST_TOGETHER if is_first else TOGETHER_UNKNOWN if unknown else TOGETHER
        self._timers.at(now + patience, self._grow_together)

    def _grow(self, member: Member, now: float) -> None:
        if member not in self._growing:
            return
        self._growing.discard(member)
        if not member.parked or not self.is_full(member):
            return
        if member.flow.grow(self._do_others_wait(), now):
            self._grown(member, now)
        if member.parked and self.is_full(member):
            self.watch(member, now)

    def _grown(self, member: Member, now: float) -> None:
        if member.flow.is_overdue(now):
            fields = {"group": self._group, "member": member.name, "in_flight": member.in_flight}
            self._effects.append(Report("a member at its cap has never committed", fields, "warning"))
        self._refill(member, now)

    def _grow_together(self, now: float) -> None:
        self._growing_together = False
        if not self._waiting() or len(self.members) < 2:
            return
        most, left = self._beside_those_at_work()
        known = max((member.flow.cap for member in self.members if member.flow.keeps_up), default=None)
        asking = [
            member
            for member in self._full
            if member.parked and member.flow.cap <= most and member.flow.may_double(known)
        ]
        if not asking or left <= 0:
            return
        part = -(-left // len(asking))
        for member in asking:
            member.flow.double(member.in_flight + part)
        for member in sorted(asking, key=lambda member: member.served):
            self._grown(member, now)

    def _beside_those_at_work(self) -> tuple[int, int]:
        """How large a window may be that grows while others are not full, and how many offsets those leave of what
        waits and what stands in the logs.

        Of who has committed more is known than that; who has not may have windows of half the size, since its equal
        work may not be over yet.
        """
        at_work = self.members - self._full
        waiting = self._waiting() + self._unread()
        if not at_work:
            return NO_LIMIT, waiting
        unknown = [member.flow.cap for member in at_work if member.flow.never_committed]
        return min(unknown, default=0), waiting - sum(member.flow.cap - member.in_flight for member in at_work)
