"""How long a member may keep what it has not committed: not for ever, if others could have it.

One that is silent, though its session goes on, loses what it holds after `lock_timeout`. One that goes on fetching and
commits nothing is not silent; it loses what it holds after `hold_timeout`, if there are others all that time
(docs/decisions/0029-who-holds-without-committing.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import PoolParts
from mesh.pool.fetch.serving import Serving
from mesh.pool.state.member import Member

LOOKS = 10
"""How often it is looked in the time that is allowed."""
SHORTEST = 0.1
"""Seconds between two looks."""


class Locks:
    """Takes records from members that have held them for too long. members: all that live. are_leased: whether holders
    of range leases take part, who count as others."""

    def __init__(
        self,
        parts: PoolParts,
        serving: Serving,
        members: Iterable[Member],
        are_leased: Callable[[float], bool],
        now: float,
    ) -> None:
        self._settings = parts.settings
        self._serving = serving
        self._members = members
        self._are_leased = are_leased
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._others_since: float | None = None
        """Since when there has been somebody else for what a member holds."""
        self._interval = max(min(parts.settings.lock_timeout, parts.settings.hold_timeout) / LOOKS, SHORTEST)
        parts.timers.at(now + self._interval, self._look)

    def _look(self, now: float) -> None:
        asking = self._serving.distribution.members
        if len(asking) + self._are_leased(now) < 2:
            self._others_since = None
        elif self._others_since is None:
            self._others_since = now
        for member in list(self._members):
            if member.in_flight and member.share is None:  # those of share members have a time of their own
                self._look_at(member, now)
        self._timers.at(now + self._interval, self._look)

    def _look_at(self, member: Member, now: float) -> None:
        silence = max(member.rebalance_timeout, self._settings.lock_timeout)
        if not member.parked and now - member.heard >= silence:
            self._take(member, Cause.SILENT, "a silent member lost what it held", now)
        elif self._others_since is not None:
            sent = (oldest.since for window in member.windows.values() if (oldest := window.first()) is not None)
            since = max(self._others_since, member.settled, min(sent, default=now))
            if now - since >= self._settings.hold_timeout:
                self._take(member, Cause.HELD, "a member that commits nothing lost what it held", now)

    def _take(self, member: Member, cause: Cause, event: str, now: float) -> None:
        fields = {"member": member.name, "in_flight": member.in_flight}
        self._outbox.report(event, fields, "warning")
        self._serving.release(member, list(member.windows), cause, now, others_first=True)
