"""Counters and histograms for events on the way of every Fetch. To count is one addition; the families for Prometheus
are made at a scrape. All of it lives on the event loop's thread, so there are no locks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

PART: Final = 200
"""The most series that are collected or written at a time."""


class FastCounterSeries:
    """One series of a counter. Code that counts adds to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class FastHistogramSeries:
    """One series of a histogram. bounds: the upper bounds of its buckets, ascending; each belongs to its bucket."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


Series = TypeVar("Series")


class _Family(Generic[Series]):
    def __init__(self, labels: tuple[str, ...], make: Callable[[], Series], registry: CollectorRegistry) -> None:
        self._labels: Final = labels
        self._make: Final = make
        self._series: Final[dict[tuple[str, ...], Series]] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        """Returns the series with these label values. It is exported from now on."""
        if len(values) != len(self._labels):
            raise ValueError(f"{len(values)} values for the labels {self._labels}")
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = self._make()
        return series

    def remove_by_labels(self, labels: dict[str, str]) -> None:
        """Removes all series that have these values of these labels."""
        wanted = [(self._labels.index(name), value) for name, value in labels.items()]
        for values in [each for each in self._series if all(each[at] == value for at, value in wanted)]:
            del self._series[values]

    def describe(self) -> Iterable[Metric]:
        return [self._metric()]

    def collect(self) -> Iterator[Metric]:
        """Yields the series in several metrics of one name, each of which takes little time."""
        series = tuple(self._series.items())
        for start in range(0, max(len(series), 1), PART):
            metric = self._metric()
            for values, each in series[start : start + PART]:
                self._add(metric, values, each)
            yield metric

    def _metric(self) -> Metric:
        raise NotImplementedError

    def _add(self, metric: Metric, values: tuple[str, ...], series: Series) -> None:
        raise NotImplementedError


class FastCounter(_Family[FastCounterSeries]):
    """A counter with its series. name: without `_total`."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        self._name, self._text = name, text
        super().__init__(labels, FastCounterSeries, registry)

    def _metric(self) -> Metric:
        return CounterMetricFamily(self._name, self._text, labels=self._labels)

    def _add(self, metric: Metric, values: tuple[str, ...], series: FastCounterSeries) -> None:
        assert isinstance(metric, CounterMetricFamily)
        metric.add_metric(values, series.value)


class FastHistogram(_Family[FastHistogramSeries]):
    """A histogram with its series. bounds: the upper bounds of its buckets, ascending; seconds for times."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry, bounds: tuple[float, ...]
    ) -> None:
        self._name, self._text, self._bounds = name, text, bounds
        super().__init__(labels, lambda: FastHistogramSeries(bounds), registry)

    def _metric(self) -> Metric:
        return HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def _add(self, metric: Metric, values: tuple[str, ...], series: FastHistogramSeries) -> None:
        assert isinstance(metric, HistogramMetricFamily)
        names = [*(str(float(each)) for each in self._bounds), "+Inf"]
        buckets = list(zip(names, accumulate(series.counts), strict=True))
        metric.add_metric(values, buckets, series.total)
