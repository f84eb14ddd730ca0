"""A limit for the rate of log entries that clients can cause."""

from __future__ import annotations

from typing import Final

PER_SECOND: Final = 5.0
BURST: Final = 50.0


class LogRate:
    """Admits at most `burst` entries at once, and `per_second` in the long run. Counts the entries that were left
    out."""

    def __init__(self, per_second: float = PER_SECOND, burst: float = BURST) -> None:
        self._per_second = per_second
        self._burst = burst
        self._room = burst
        self._then = 0.0
        self._left_out = 0

    def admit(self, now: float) -> int | None:
        """Admits an entry. Returns the number of entries that were left out before it; None if this one is too many.
        now: seconds."""
        self._room = min(self._burst, self._room + (now - self._then) * self._per_second)
        self._then = now
        if self._room < 1:
            self._left_out += 1
            return None
        self._room -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out
