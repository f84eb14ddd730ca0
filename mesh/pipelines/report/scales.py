"""The scales of plots: positions of values, and labels of axes. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DURATIONS: Final = (
    *(1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000),
    *(60_000, 180_000, 600_000, 1_800_000, 3_600_000, 10_800_000, 36_000_000, 86_400_000, 259_200_000, 864_000_000),
)
"""Ticks of a logarithmic axis of durations, in ms."""
MOST_TICKS: Final = 6


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """A logarithmic axis of durations in ms. low, high: the values at its ends. begin, end: the positions of its
    ends."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def of(cls, values: Sequence[int], begin: float, end: float) -> Logarithmic:
        """Returns a scale for these values that begins and ends with a tick."""
        low, high = (max(min(values), 1), max(*values, 1)) if values else (1, 100)
        first = max(bisect_right(DURATIONS, low) - 1, 0)
        last = min(max(bisect_left(DURATIONS, high), first + 2), len(DURATIONS) - 1)
        return cls(DURATIONS[min(first, last - 1)], DURATIONS[last], begin, end)

    def at(self, value: float) -> float:
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.begin + min(share, 1.0) * (self.end - self.begin)

    @property
    def ticks(self) -> list[int]:
        found = [each for each in DURATIONS if self.low <= each <= self.high]
        return found[:: -(-len(found) // MOST_TICKS)]


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear axis, of values or of times."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def upto(cls, most: float, begin: float, end: float) -> Linear:
        """Returns a scale from 0 to a round number that is not less than `most`."""
        if most <= 0:
            return cls(0, 1, begin, end)
        ten = 10.0 ** math.floor(math.log10(most))
        high = next(each * ten for each in (1, 2, 3, 4, 5, 6, 8, 10) if each * ten >= most * 0.999_999)
        return cls(0, high, begin, end)

    def at(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        return [self.low + (self.high - self.low) * part / 4 for part in range(5)]


def moments(begin: int, end: int, most: int = 7) -> list[int]:
    """Returns round times between two times, in ms since the epoch."""
    wide = max(end - begin, 1)
    counts = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
    step = next((each * 1_000 for each in counts if wide <= each * 1_000 * most), 86_400_000 * -(-wide // 604_800_000))
    return list(range(-(-begin // step) * step, end + 1, step))
