"""Deadlines without a clock: what is to be done at which time, and which of many pools has something to do next.

Both are asked by whatever has the clock; no pool is looked at that has nothing to do.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

SWEEP = 100
"""Deadlines that may be kept although they were cancelled: most Fetches are answered long before theirs."""


class Timer:
    """One deadline. `cancel` may be called at any time, any number of times."""

    __slots__ = ("action", "when")

    def __init__(self, when: float, action: Callable[[float], None]) -> None:
        self.when = when
        self.action: Callable[[float], None] | None = action

    def cancel(self) -> None:
        self.action = None

    @property
    def cancelled(self) -> bool:
        return self.action is None

    def fire(self, now: float) -> None:
        action, self.action = self.action, None
        if action is not None:
            action(now)


class Timers:
    """Deadlines in order of time; equal ones in the order they were set. Times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._sweep_at = SWEEP

    def __len__(self) -> int:
        """How many are kept, also of those that were cancelled."""
        return len(self._heap)

    def at(self, when: float, action: Callable[[float], None]) -> Timer:
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        timer = Timer(when, action)
        heapq.heappush(self._heap, (when, next(self._count), timer))
        return timer

    def next(self) -> float | None:
        """The earliest deadline, or None."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _sweep(self) -> None:
        """Let go of what was cancelled; as often as the number has doubled."""
        self._heap = [entry for entry in self._heap if not entry[2].cancelled]
        heapq.heapify(self._heap)
        self._sweep_at = 2 * len(self._heap) + SWEEP

    def fire_next(self, now: float) -> bool:
        """Do one thing that is due; False when nothing is."""
        deadline = self.next()
        if deadline is None or deadline > now:
            return False
        heapq.heappop(self._heap)[2].fire(now)
        return True


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
