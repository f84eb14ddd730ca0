"""The metrics of /metrics in the form of OTLP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from mesh.telemetry.otlp.exporting import Collector, Measurements
from mesh.telemetry.slices import in_slices


async def keep_sending(families: Callable[[], Iterable[Family | None]], collector: Collector, interval: float) -> None:
    """Sends the metrics every `interval` seconds until it is cancelled. They are collected on the event loop, as at a
    scrape. Slow work is done in threads."""
    begun = time.time_ns()
    measurements = Measurements(collector)
    try:
        while True:
            await asyncio.sleep(interval)
            found, now = await in_slices(families()), time.time_ns()
            data = await asyncio.to_thread(data_of, whole(found), collector.resource, begun, now)
            await asyncio.to_thread(measurements.export, data)
    finally:
        measurements.shutdown()


def whole(parts: Iterable[Family | None]) -> list[Family]:
    """Returns the metrics of which these are the parts."""
    found: dict[str, Family] = {}
    for part in parts:
        if part is not None:
            whole = found.setdefault(part.name, Family(part.name, part.documentation, part.type))
            whole.samples += part.samples
    return list(found.values())


def data_of(families: Iterable[Family], resource: Resource, begun: int, now: int) -> MetricsData:
    """Returns the metrics in OTLP's form. Times are in ns since the epoch. begun: the time at which counters began at
    0."""
    metrics = [metric for family in families for metric in _metrics(family, begun, now)]
    scope = ScopeMetrics(InstrumentationScope("kafka-mesh"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metrics(family: Family, begun: int, now: int) -> Iterator[Metric]:
    if not family.samples:
        return
    match family.type:
        case "histogram":
            histograms = Histogram(list(_histograms(family.samples, begun, now)), AggregationTemporality.CUMULATIVE)
            yield Metric(family.name, family.documentation, "", histograms)
        case "counter":
            name = f"{family.name}_total"
            points = [_point(each, begun, now) for each in family.samples if each.name == name]
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
            yield Metric(name, family.documentation, "", data)
        case _:
            yield Metric(
                family.name, family.documentation, "", Gauge([_point(each, begun, now) for each in family.samples])
            )


def _point(sample: Sample, begun: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(dict(sample.labels), begun, now, float(sample.value))


def _histograms(samples: Iterable[Sample], begun: int, now: int) -> Iterator[HistogramDataPoint]:
    buckets: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        key = _without_bound(sample.labels)
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, {})[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    for key, counts in buckets.items():
        bounds = sorted(counts)
        below = [0.0, *(counts[bound] for bound in bounds)]
        each = [round(after - before) for before, after in pairwise(below)]
        total = sums.get(key, 0.0)
        unknown = cast("float", None)  # None leaves the minimum and maximum out of the export
        finite = [bound for bound in bounds if bound != float("inf")]
        yield HistogramDataPoint(dict(key), begun, now, sum(each), total, each, finite, unknown, unknown)


def _without_bound(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "le"))
