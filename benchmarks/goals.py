"""Goals and results: the first table of docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.report import GB, MILLION, Results
from benchmarks.rounds import Measured, Series

MESH, LIBRDKAFKA, RELAY = "mesh, raw", "mesh, librdkafka", "relay"
NOT_MEASURED = "not measured"
BUDGET_MIB = 512
"""`budget` in the configuration: record bytes in memory."""
SIZES = {"100 B": "s100", "1 KB": "s1k"}
CLIENTS = {"java": "Java", "confluent": "confluent-kafka", "kcat": "kcat"}

Measure = Callable[[Results], float | None]
"""Returns None if the case was not measured."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured value and its goal. least: the bound that it has to reach; aim: the better one. Both are None where
    the value is information without a goal. More is better unless `less_is_better`.

    relay: the same value of the TCP relay. The relay does nothing but pass bytes on, so it shows the cost of a hop on
    this machine, and a goal that it misses is no goal. None where the relay has no such value.
    """

    case: str
    least: float | None
    aim: float | None
    measure: Measure
    less_is_better: bool = False
    unit: str = ""
    relay: Measure | None = None

    def row(self, results: Results) -> list[str]:
        """Case, least, aim, the measured value, whether it is reached, the relay's."""
        value = self.measure(results)
        goal = [self._text(self.least), self._text(self.aim)]
        if value is None:
            return [self.case, *goal, NOT_MEASURED, "", ""]
        relay = self.relay(results) if self.relay is not None else None
        return [self.case, *goal, self._text(value), self._reached(value), self._text(relay)]

    def _reached(self, value: float) -> str:
        if self.least is None or self.aim is None:
            return ""
        sign = -1 if self.less_is_better else 1
        return "no" if sign * value < sign * self.least else "aim" if sign * value >= sign * self.aim else "yes"

    def _text(self, value: float | None) -> str:
        return "" if value is None else f"{value:.3g}{self.unit}"


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


def _gigabytes(measured: Measured) -> float:
    return measured.bytes / GB


def _millions(measured: Measured) -> float:
    return measured.records / MILLION


def _records_a_second(series: Series) -> list[float]:
    return [1 / cost for cost in series.costs(LIBRDKAFKA, _millions) if cost]


def _against(name: str, least: float | None, aim: float | None, case: str, base: str) -> Goal:
    return Goal(name, least, aim, _ratio(case, base), relay=_ratio(case, base, RELAY))


def _cost(name: str, least: float, aim: float, unit: str, case: str, per: Callable[[Measured], float]) -> Goal:
    ours = _of(case, lambda series: series.costs(MESH, per))
    return Goal(name, least, aim, ours, True, unit, relay=_of(case, lambda series: series.costs(RELAY, per)))


def _goals() -> list[Goal]:
    goals: list[Goal] = []
    for size, topic in SIZES.items():
        for client, name in CLIENTS.items():
            goals.append(Goal(f"{name}, {size}, of a TCP relay", 0.9, 1.0, _ratio(f"{client}-{topic}", "relay")))
        four = _ratio(f"confluent-x4-{topic}-60", "relay")
        goals.append(Goal(f"four confluent-kafka, {size}, of a TCP relay", 0.75, 0.9, four))
    for client, name in CLIENTS.items():
        goals.append(_against(f"{name}, 1 KB, of Kroxylicious", 1.0, 1.25, f"{client}-s1k", "kroxylicious"))
    for (size, topic), least, aim in zip(SIZES.items(), (3.0, 2.0), (4.0, 2.6), strict=True):
        goals.append(_against(f"Java, {size}, of a share group", least, aim, f"java-{topic}", "share group"))
    for size, topic in SIZES.items():
        for client, name in CLIENTS.items():
            goals.append(_against(f"{name}, {size}, of direct", None, None, f"{client}-{topic}", "direct"))
        four_directly = f"four confluent-kafka, {size}, of four that split"
        goals.append(_against(four_directly, None, None, f"confluent-x4-{topic}-60", "direct"))
    goals.append(_cost("CPU of the mesh per GB, 1 KB", 0.65, 0.45, " s", "java-s1k", _gigabytes))
    goals.append(_cost("CPU of the mesh per record, 100 B", 0.1, 0.06, " us", "java-s100", _millions))
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
