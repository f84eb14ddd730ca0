"""Which of many pools has something to do next, without asking all of them after every step."""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, Protocol, TypeVar

from mesh.pool.common.timers import Timers


class Timed(Protocol):
    """A pool, as far as it matters here."""

    @property
    def timers(self) -> Timers: ...


Owner = TypeVar("Owner", bound=Timed)


class DeadlineQueue(Generic[Owner]):
    """When pools want to be looked at: each no later than its next deadline, perhaps earlier.

    A deadline that was cancelled stays here until its time comes: most Fetches are answered long before theirs, and the
    next one of the same pool waits longer.
    """

    __slots__ = ("_entries", "_numbers", "_planned")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Owner]] = []
        self._planned: dict[Owner, float] = {}
        """The earliest entry of each pool; its others are void."""
        self._numbers = itertools.count()

    def note(self, pool: Owner) -> None:
        """A step of this pool has ended: it may have an earlier deadline than before."""
        when = pool.timers.next()
        planned = self._planned.get(pool)
        if when is not None and (planned is None or when < planned):
            self._planned[pool] = when
            heapq.heappush(self._entries, (when, next(self._numbers), pool))

    def forget(self, pool: Owner) -> None:
        """It has ended."""
        self._planned.pop(pool, None)

    def next(self) -> float | None:
        """The earliest time at which some pool wants to be looked at."""
        while self._entries and self._planned.get(self._entries[0][2]) != self._entries[0][0]:
            heapq.heappop(self._entries)
        return self._entries[0][0] if self._entries else None

    def take(self, now: float) -> Owner | None:
        """A pool whose time has come; its next deadline is to be noted again."""
        when = self.next()
        if when is None or when > now:
            return None
        pool = heapq.heappop(self._entries)[2]
        del self._planned[pool]
        return pool
