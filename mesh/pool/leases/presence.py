"""The holders of leases that are present: they sent a request lately, or have one waiting."""

from __future__ import annotations

from collections.abc import Callable

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer

LOOK_AGAIN = 0.1
"""Seconds between two checks while a request waits."""


class Presence:
    """The presence of lease holders in one pool. A holder counts for `settings.presence` seconds after each request."""

    def __init__(self, parts: PoolParts) -> None:
        self._lasts = parts.settings.presence
        self._timers = parts.timers
        self._until = 0.0
        self._parked: dict[Ticket, Timer] = {}

    def is_present(self, now: float) -> bool:
        return bool(self._parked) or now < self._until

    def note_request(self, now: float) -> None:
        self._until = now + self._lasts

    def park(
        self, ticket: Ticket, until: float, again: Callable[[float], None], now: float, *, is_holder: bool = True
    ) -> None:
        """Parks a request. It is tried again soon, and at `until` at the latest. is_holder: False if its sender does
        not count as present."""

        def look(then: float) -> None:
            self._parked.pop(ticket, None)
            if is_holder:
                self.note_request(then)
            again(then)

        self._parked[ticket] = self._timers.at(min(now + LOOK_AGAIN, until), look)

    def look_again(self, now: float) -> None:
        """Tries all waiting requests again now."""
        for timer in list(self._parked.values()):
            timer.fire(now)

    def close(self) -> list[Ticket]:
        """Cancels all waiting requests, and returns them."""
        parked, self._parked = self._parked, {}
        for timer in parked.values():
            timer.cancel()
        return list(parked)
