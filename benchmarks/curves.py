"""The cost of a unit of work while something grows, as a curve that should be flat or rise with the logarithm."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

ALLOWED = 1.35
"""The allowed growth of a unit's cost for each tenfold growth: room for trees and caches, not for a walk over a
list."""


@dataclass(frozen=True, slots=True)
class Point:
    """size: of what grows. costs: microseconds for a unit of work, of several stretches of time."""

    size: int
    costs: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.costs)


@dataclass(slots=True)
class Curve:
    """A curve of costs. case: what grows. unit: of its size. work: the work of each cost."""

    case: str
    unit: str
    work: str
    points: list[Point] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """The factor by which a unit costs more at the end than at the beginning."""
        return self.points[-1].median / self.points[0].median

    @property
    def is_sound(self) -> bool:
        """Whether it is flat or logarithmic."""
        return self.growth <= allowed(self.points[0].size, self.points[-1].size)


def allowed(first: int, last: int, per_tenfold: float = ALLOWED) -> float:
    """The growth that a logarithm explains."""
    return float(per_tenfold ** max(math.log10(last / max(first, 1)), 0.0))
