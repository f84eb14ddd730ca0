"""Metrics of the interceptors of a virtual cluster, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mesh.interceptors.sequences import Sequences
from mesh.runtime.interception.interceptor_runner import InterceptorRunner
from mesh.telemetry.metric_definitions import (
    INTERCEPTOR_PRODUCERS,
    INTERCEPTOR_PRODUCERS_FORGOTTEN,
    INTERCEPTOR_RECORDS,
    INTERCEPTOR_SECONDS,
    INTERCEPTOR_TIMEOUTS,
    INTERCEPTOR_UNSEQUENCED,
    INTERCEPTOR_WORKERS,
    INTERCEPTOR_WORKERS_LOST,
    MetricSample,
)


def samples_of(runner: InterceptorRunner, sequences: Collection[Sequences] = ()) -> Iterator[MetricSample]:
    """Yields the samples of the interceptors. sequences: the sequence numbers of producers whose records may be
    dropped."""
    for (name, topic), count in sorted(runner.counts.records.items()):
        for outcome in ("kept", "changed", "dropped", "rejected", "failed"):
            yield MetricSample(INTERCEPTOR_RECORDS, (runner.name, name, topic, outcome), getattr(count, outcome))
        yield MetricSample(INTERCEPTOR_SECONDS, (runner.name, name, topic), count.seconds)
    for name, timeouts in sorted(runner.counts.timeouts.items()):
        yield MetricSample(INTERCEPTOR_TIMEOUTS, (runner.name, name), timeouts)
    if sequences:
        yield MetricSample(INTERCEPTOR_PRODUCERS, (runner.name,), sum(map(len, sequences)))
        yield MetricSample(INTERCEPTOR_PRODUCERS_FORGOTTEN, (runner.name,), sum(each.forgotten for each in sequences))
        for why, batches in sorted(runner.counts.unsequenced.items()):
            yield MetricSample(INTERCEPTOR_UNSEQUENCED, (runner.name, why.value), batches)
    if runner.workers is not None:
        yield MetricSample(INTERCEPTOR_WORKERS, (runner.name,), runner.workers.alive)
        yield MetricSample(INTERCEPTOR_WORKERS_LOST, (runner.name,), runner.workers.lost)
