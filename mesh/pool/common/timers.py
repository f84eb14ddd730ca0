"""The timers of a pool, and of many pools. They have no clock: the caller has one, and asks for the next deadline.

A pool without timers costs nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

SWEEP = 100
"""The most cancelled timers to keep. Most Fetches are answered long before their deadline."""


class Timer:
    """One deadline with its action. `cancel` may be called at any time, and repeatedly."""

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
    """Timers in the order of their deadlines; equal ones in the order in which they were set. Times are seconds of the
    caller's clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._sweep_at = SWEEP

    def __len__(self) -> int:
        """Returns the number of timers, including cancelled ones."""
        return len(self._heap)

    def at(self, when: float, action: Callable[[float], None]) -> Timer:
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        timer = Timer(when, action)
        heapq.heappush(self._heap, (when, next(self._count), timer))
        return timer

    def next(self) -> float | None:
        """Returns the earliest deadline; None if there is none."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _sweep(self) -> None:
        """Drops cancelled timers, whenever the number of timers has doubled."""
        self._heap = [entry for entry in self._heap if not entry[2].cancelled]
        heapq.heapify(self._heap)
        self._sweep_at = 2 * len(self._heap) + SWEEP

    def fire_next(self, now: float) -> bool:
        """Calls one timer that is due. Returns False if none is."""
        deadline = self.next()
        if deadline is None or deadline > now:
            return False
        heapq.heappop(self._heap)[2].fire(now)
        return True


class Timed(Protocol):
    """The part of a pool that the `DeadlineQueue` needs."""

    @property
    def timers(self) -> Timers: ...


Owner = TypeVar("Owner", bound=Timed)


class DeadlineQueue(Generic[Owner]):
    """A queue of the times at which pools are due. The time of a pool may be earlier than its next deadline, but never
    later.

    A cancelled deadline stays in the queue until its time comes: most Fetches are answered long before their deadlines,
    and the next Fetch of the same pool has a later one.
    """

    __slots__ = ("_entries", "_numbers", "_planned")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Owner]] = []
        self._planned: dict[Owner, float] = {}
        """The earliest entry of each pool. Its other entries are void."""
        self._numbers = itertools.count()

    def note(self, pool: Owner) -> None:
        """Notes the next deadline of a pool after a step: it may be earlier than before."""
        when = pool.timers.next()
        planned = self._planned.get(pool)
        if when is not None and (planned is None or when < planned):
            self._planned[pool] = when
            heapq.heappush(self._entries, (when, next(self._numbers), pool))

    def forget(self, pool: Owner) -> None:
        """Forgets a pool that has ended."""
        self._planned.pop(pool, None)

    def next(self) -> float | None:
        """Returns the earliest time at which a pool is due; None if there is none."""
        while self._entries and self._planned.get(self._entries[0][2]) != self._entries[0][0]:
            heapq.heappop(self._entries)
        return self._entries[0][0] if self._entries else None

    def take(self, now: float) -> Owner | None:
        """Removes and returns a pool that is due; None if none is. The caller must call `note` for it again."""
        when = self.next()
        if when is None or when > now:
            return None
        pool = heapq.heappop(self._entries)[2]
        del self._planned[pool]
        return pool
