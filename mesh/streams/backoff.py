"""The pauses between requests for a group's description.

A request starts the pause. A client that ignores requests, or whose pushes fail, is asked again after longer and longer
pauses. Every process has its own pauses, in memory, like every broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

INITIAL: Final = 30.0
MULTIPLIER: Final = 2.0
MAXIMUM: Final = 3600.0
JITTER: Final = 0.2
MOST_GROUPS: Final = 100_000
"""The most groups that are remembered: nothing reports deleted ones."""
_MOST_DOUBLED: Final = 10


@dataclass(frozen=True, slots=True)
class _Pause:
    epoch: int
    attempts: int
    until: float


class Backoff:
    """The pauses of all groups. random: returns a number from 0 to 1. now: seconds."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._pauses: dict[str, _Pause] = {}

    def arm_if_not_active(self, group: str, epoch: int, now: float) -> bool:
        """Returns True if the group may be asked now, and begins its pause."""
        pause = self._pauses.get(group)
        if pause is not None and (epoch < pause.epoch or (epoch == pause.epoch and now < pause.until)):
            return False
        self._begin(group, epoch, now)
        return True

    def arm(self, group: str, epoch: int, now: float) -> None:
        """Begins a pause after a push that failed, and may succeed later."""
        pause = self._pauses.get(group)
        if pause is None or epoch >= pause.epoch:
            self._begin(group, epoch, now)

    def clear(self, group: str, epoch: int) -> None:
        """Ends the pause: the description is settled for this epoch."""
        pause = self._pauses.get(group)
        if pause is not None and pause.epoch == epoch:
            del self._pauses[group]

    def clear_group(self, group: str) -> None:
        """Ends the pause of a deleted group."""
        self._pauses.pop(group, None)

    def _begin(self, group: str, epoch: int, now: float) -> None:
        before = self._pauses.pop(group, None)
        attempts = before.attempts + 1 if before is not None and before.epoch == epoch else 0
        if len(self._pauses) >= MOST_GROUPS:
            del self._pauses[next(iter(self._pauses))]  # the oldest pause
        self._pauses[group] = _Pause(epoch, attempts, now + self._delay(attempts))

    def _delay(self, attempts: int) -> float:
        term = min(INITIAL * MULTIPLIER ** min(attempts, _MOST_DOUBLED), MAXIMUM)
        return min(term * (1 + JITTER * (2 * self._random() - 1)), MAXIMUM)
