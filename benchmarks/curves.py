"""What a unit of work costs while something grows, as a curve that should be flat or rise with the logarithm."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

ALLOWED = 1.35
"""How much more a unit may cost for each tenfold growth: what trees and caches take, and nothing that walks a list."""


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
    """case: what grows. unit: of its size. work: what is done once for each cost."""

    case: str
    unit: str
    work: str
    points: list[Point] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """By how much a unit costs more at the end than at the beginning."""
        return self.points[-1].median / self.points[0].median

    @property
    def is_sound(self) -> bool:
        """Whether it is flat or logarithmic."""
        return self.growth <= allowed(self.points[0].size, self.points[-1].size)


def allowed(first: int, last: int, per_tenfold: float = ALLOWED) -> float:
    """The growth that a logarithm explains."""
    return float(per_tenfold ** max(math.log10(last / max(first, 1)), 0.0))
