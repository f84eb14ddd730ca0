"""Holders of leases that are there: those that asked lately, and those whose requests wait."""

from __future__ import annotations

from collections.abc import Callable

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer

LOOK_AGAIN = 0.1
"""Seconds between two looks for what a request waits for."""


class Presence:
    """Which holders of leases are there. A holder counts for `settings.presence` seconds after it was heard."""

    def __init__(self, parts: PoolParts) -> None:
        self._lasts = parts.settings.presence
        self._timers = parts.timers
        self._until = 0.0
        self._parked: dict[Ticket, Timer] = {}

    def is_there(self, now: float) -> bool:
        return bool(self._parked) or now < self._until

    def heard(self, now: float) -> None:
        self._until = now + self._lasts

    def park(self, ticket: Ticket, until: float, again: Callable[[float], None], now: float) -> None:
        """A request waits, and is looked at again soon, or at `until` the latest."""

        def look(then: float) -> None:
            self._parked.pop(ticket, None)
            self.heard(then)
            again(then)

        self._parked[ticket] = self._timers.at(min(now + LOOK_AGAIN, until), look)

    def look_again(self, now: float) -> None:
        """At once."""
        for timer in list(self._parked.values()):
            timer.fire(now)

    def close(self) -> list[Ticket]:
        """Nobody waits any more. Returns those who did."""
        parked, self._parked = self._parked, {}
        for timer in parked.values():
            timer.cancel()
        return list(parked)
