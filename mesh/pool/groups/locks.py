"""Locks: a member may not keep uncommitted records forever if others could have them.

A member that is silent, although its session goes on, loses its records after `lock_timeout`. A member that fetches but
commits nothing is not silent. It loses its records after `hold_timeout`, if there are other members all that time
(docs/decisions/0029-hold-timeout.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import PoolParts
from mesh.pool.fetch.serving import Serving
from mesh.pool.state.member import Member

CHECKS = 10
"""The number of checks within a timeout."""
SHORTEST_INTERVAL = 0.1
"""The least seconds between two checks."""


class Locks:
    """Takes records from members that have held them for too long. members: the living members. are_leased: returns
    whether holders of leases take part; they count as another member."""

    def __init__(
        self,
        parts: PoolParts,
        serving: Serving,
        members: Iterable[Member],
        are_leased: Callable[[float], bool],
    ) -> None:
        self._settings = parts.settings
        self._serving = serving
        self._members = members
        self._are_leased = are_leased
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._others_since: float | None = None
        """Since when there has been another member, or a holder of leases."""
        self._interval = max(min(parts.settings.lock_timeout, parts.settings.hold_timeout) / CHECKS, SHORTEST_INTERVAL)

    def start(self, now: float) -> None:
        """Starts the checks. A timer does them from then on."""
        self._timers.at(now + self._interval, self._check)

    def _check(self, now: float) -> None:
        fetching = self._serving.distribution.members
        if len(fetching) + self._are_leased(now) < 2:
            self._others_since = None
        elif self._others_since is None:
            self._others_since = now
        for member in list(self._members):
            if member.in_flight and member.share is None:  # records of share members have locks of their own
                self._check_member(member, now)
        self._timers.at(now + self._interval, self._check)

    def _check_member(self, member: Member, now: float) -> None:
        silence = max(member.rebalance_timeout, self._settings.lock_timeout)
        if not member.parked and now - member.heard_at >= silence:
            self._take(member, Cause.SILENT, "silent member lost its records", now)
        elif self._others_since is not None:
            sent = (oldest.since for window in member.windows.values() if (oldest := window.first()) is not None)
            since = max(self._others_since, member.settled_at, min(sent, default=now))
            if now - since >= self._settings.hold_timeout:
                self._take(member, Cause.HELD, "member without commits lost its records", now)

    def _take(self, member: Member, cause: Cause, event: str, now: float) -> None:
        fields = {"member": member.name, "in_flight": member.in_flight}
        self._outbox.report(event, fields, "warning")
        self._serving.release(member, list(member.windows), cause, now, others_first=True)
