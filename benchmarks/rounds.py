"""Targets take turns, round by round; what is compared was measured in the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.machine import DISTURBED, LoadMeter


@dataclass(frozen=True, slots=True)
class Measured:
    """value: what the case measures. cost: CPU seconds of what stands in front of the broker. peak: MiB of it."""

    value: float
    cost: float = 0.0
    peak: float = 0.0
    records: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    round: int
    target: str
    measured: Measured
    foreign: float
    repeated: bool


@dataclass(slots=True)
class Series:
    """All runs of one case."""

    case: str
    unit: str
    runs: list[Run] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, round: int, target: str, measured: Measured) -> None:
        """A value that was measured together with others."""
        self.runs.append(Run(round, target, measured, 0.0, False))

    def values(self, target: str) -> list[float]:
        return [run.measured.value for run in self.runs if run.target == target]

    def median(self, target: str) -> float:
        return statistics.median(self.values(target))

    def ratios(self, target: str, base: str) -> list[float]:
        """Of each round in which both were measured."""
        bases = {run.round: run.measured.value for run in self.runs if run.target == base}
        pairs = ((run.measured.value, bases.get(run.round)) for run in self.runs if run.target == target)
        return [value / other for value, other in pairs if other]

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(run.target for run in self.runs))


Measure = Callable[[], Measured]


def interleave(case: str, unit: str, targets: Mapping[str, Measure], rounds: int, say: Callable[[str], None]) -> Series:
    """A round to warm up, which is not counted, then A B C A B C. A run that others disturbed is made once more; the
    second result counts whatever it is, so nothing is chosen by its rate."""
    series = Series(case, unit)
    for number in range(rounds + 1):
        for name, measure in targets.items():
            if name in {failure.partition(":")[0] for failure in series.failures}:
                continue
            try:
                run = _one(number, name, measure)
            except (RuntimeError, AssertionError, OSError) as problem:
                series.failures.append(f"{name}: {problem}")
                say(f"{case}: {name} failed: {problem}")
                continue
            if number:
                series.runs.append(run)
                say(f"{case} {number}/{rounds} {name}: {run.measured.value:,.4g} {unit}, foreign {run.foreign:.2f}")
    return series


def _one(number: int, name: str, measure: Measure) -> Run:
    for repeated in (False, True):
        meter = LoadMeter()
        measured = measure()
        foreign = meter.read().foreign
        if foreign <= DISTURBED or repeated:
            return Run(number, name, measured, foreign, repeated)
    raise AssertionError("unreachable")


def spread(values: Sequence[float]) -> str:
    """Median, least and most."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"
