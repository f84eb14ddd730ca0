"""What is to be reached, and what was measured of it: the first table of docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.report import GB, MILLION, Results
from benchmarks.rounds import Series

MESH, LIBRDKAFKA = "mesh, raw", "mesh, librdkafka"
NOT_MEASURED = "not measured"
BUDGET_MIB = 512
"""`budget` in the configuration: record bytes in memory."""
CLIENTS = {"java": "Java", "confluent": "confluent-kafka", "kcat": "kcat"}

Measure = Callable[[Results], float | None]
"""None where the case was not measured."""


@dataclass(frozen=True, slots=True)
class Goal:
    """least, aim: what the value has to be, and is meant to be; more is better unless `less_is_better`."""

    case: str
    least: float
    aim: float
    measure: Measure
    less_is_better: bool = False
    unit: str = ""

    def row(self, results: Results) -> list[str]:
        value = self.measure(results)
        if value is None:
            return [self.case, self._text(self.least), self._text(self.aim), NOT_MEASURED, ""]
        sign = -1 if self.less_is_better else 1
        reached = "no" if sign * value < sign * self.least else "aim" if sign * value >= sign * self.aim else "yes"
        return [self.case, self._text(self.least), self._text(self.aim), self._text(value), reached]

    def _text(self, value: float) -> str:
        return f"{value:.3g}{self.unit}"


def _ratio(case: str, base: str, target: str = MESH) -> Measure:
    return _of(case, lambda series: series.ratios(target, base))


def _of(case: str, values: Callable[[Series], Sequence[float]]) -> Measure:
    def measure(results: Results) -> float | None:
        series = results.find(case)
        found = values(series) if series is not None else []
        return statistics.median(found) if found else None

    return measure


def _peak(results: Results) -> float | None:
    peaks = [series.peak(MESH) for series in results.series if series.unit == "records/s"]
    return max(peaks) or None if peaks else None


def _records_a_second(series: Series) -> list[float]:
    return [1 / cost for cost in series.costs(LIBRDKAFKA, lambda measured: measured.records / MILLION) if cost]


def _goals() -> list[Goal]:
    goals: list[Goal] = []
    for base, sizes in (("direct", (("100 B", "s100", 0.85, 1.0), ("1 KB", "s1k", 0.75, 0.9))),):
        for size, topic, least, aim in sizes:
            for client, name in CLIENTS.items():
                goals.append(Goal(f"{name}, {size}, of {base}", least, aim, _ratio(f"{client}-{topic}", base)))
    for size, topic in (("100 B", "s100"), ("1 KB", "s1k")):
        for client, name in CLIENTS.items():
            goals.append(Goal(f"{name}, {size}, of a TCP relay", 1.0, 1.2, _ratio(f"{client}-{topic}", "relay")))
    for client, name in CLIENTS.items():
        goals.append(Goal(f"{name}, 1 KB, of Kroxylicious", 1.25, 1.5, _ratio(f"{client}-s1k", "kroxylicious")))
    for size, topic, least, aim in (("100 B", "s100", 3.0, 4.0), ("1 KB", "s1k", 2.0, 2.6)):
        goals.append(Goal(f"Java, {size}, of a share group", least, aim, _ratio(f"java-{topic}", "share group")))
        four = f"confluent-x4-{topic}-60"
        goals.append(Goal(f"four confluent-kafka, {size}, of four that split", 0.85, 1.0, _ratio(four, "direct")))
    per_gb = _of("java-s1k", lambda series: series.costs(MESH, lambda measured: measured.bytes / GB))
    per_record = _of("java-s100", lambda series: series.costs(MESH, lambda measured: measured.records / MILLION))
    goals.append(Goal("CPU of the mesh per GB, 1 KB", 0.65, 0.45, per_gb, True, " s"))
    goals.append(Goal("CPU of the mesh per record, 100 B", 0.1, 0.06, per_record, True, " us"))
    for name, least, aim in (("median", 0.4, 0.2), ("p99", 0.8, 0.4)):
        added = _of(f"latency-100 {name}", lambda series: series.differences(MESH, "direct"))
        goals.append(Goal(f"latency added at 100 records/s, {name}", least, aim, added, True, " ms"))
    idle = _of("parked-200 idle", lambda series: [100 * value for value in series.values(MESH)])
    goals.append(Goal("200 parked consumers, of a core", 5.0, 3.0, idle, True, " %"))
    goals.append(Goal("resident memory, peak", BUDGET_MIB + 150, BUDGET_MIB + 80, _peak, True, " MiB"))
    goals.append(
        Goal("librdkafka engine, records/s of a core", 0.8, 0.9, _of("engines-s100", _records_a_second), unit=" M")
    )
    return goals


GOALS = _goals()
