"""Targets take turns, round by round; only results of the same round are compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from subprocess import SubprocessError

from confluent_kafka import KafkaException

from benchmarks.machine import DISTURBED, LoadMeter


@dataclass(frozen=True, slots=True)
class Measured:
    """A result. value: what the case measures. cost: CPU seconds of the target's processes. peak: their MiB. records
    and bytes (of values): received ones, 0 where they are not measured. second: another value of the same run."""

    value: float
    cost: float = 0.0
    peak: float = 0.0
    records: int = 0
    bytes: int = 0
    second: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """foreign: cores that others used meanwhile. repeated: whether it was made once more because that was too much."""

    round: int
    target: str
    measured: Measured
    foreign: float
    repeated: bool


@dataclass(slots=True)
class Series:
    """All runs of one case. unit: of its values, records/s if more is better, otherwise less is."""

    case: str
    unit: str
    runs: list[Run] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    note: str = ""

    def add(self, round: int, target: str, measured: Measured, foreign: float = 0.0) -> None:
        """A value that was measured together with others."""
        self.runs.append(Run(round, target, measured, foreign, False))

    def of(self, target: str) -> list[Run]:
        return [run for run in self.runs if run.target == target]

    def values(self, target: str) -> list[float]:
        return [run.measured.value for run in self.of(target)]

    def median(self, target: str) -> float:
        return statistics.median(self.values(target))

    def ratios(self, target: str, base: str) -> list[float]:
        """The ratios of each round in which both were measured."""
        return [value / other for value, other in self._pairs(target, base) if other]

    def differences(self, target: str, base: str) -> list[float]:
        """The same, subtracted."""
        return [value - other for value, other in self._pairs(target, base)]

    def costs(self, target: str, per: Callable[[Measured], float]) -> list[float]:
        """CPU seconds of each run for one of what `per` counts."""
        found = [run.measured for run in self.of(target) if run.measured.cost]
        return [measured.cost / per(measured) for measured in found if per(measured)]

    def peak(self, target: str) -> float:
        """MiB; 0 if it was not measured."""
        return max((run.measured.peak for run in self.of(target)), default=0.0)

    def _pairs(self, target: str, base: str) -> list[tuple[float, float]]:
        bases = {run.round: run.measured.value for run in self.of(base)}
        return [(run.measured.value, bases[run.round]) for run in self.of(target) if run.round in bases]

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(run.target for run in self.runs))


Measure = Callable[[], Measured]
PROBLEMS = (RuntimeError, AssertionError, OSError, SubprocessError, KafkaException)
"""Failures of a run that concern its target."""


def interleave(series: Series, targets: Mapping[str, Measure], rounds: int, say: Callable[[str], None]) -> Series:
    """A round to warm up, which is not counted, then C B A, A B C, and so on: a broker is busy for some time with what
    the run before wrote and deleted, so no target follows the same one each time. A run that others disturbed is made
    once more; the second result counts whatever it is, so nothing is chosen by its rate. A target that failed is left
    out."""
    failed: set[str] = set()
    for number in range(rounds + 1):
        for name, measure in reversed(list(targets.items())) if number % 2 else targets.items():
            if name in failed:
                continue
            try:
                run = _one(number, name, measure)
            except PROBLEMS as problem:
                failed.add(name)
                series.failures.append(f"{name}: {problem}")
                say(f"{series.case}: {name} failed: {problem}")
                continue
            if number:
                series.runs.append(run)
                value = f"{run.measured.value:,.4g} {series.unit}"
                say(f"{series.case} {number}/{rounds} {name}: {value}, foreign {run.foreign:.2f}")
    return series


def _one(number: int, name: str, measure: Measure) -> Run:
    repeated = False
    while True:
        meter = LoadMeter()
        measured = measure()
        foreign = meter.read().foreign
        if foreign <= DISTURBED or repeated:
            return Run(number, name, measured, foreign, repeated)
        repeated = True


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median, least and most."""
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"
