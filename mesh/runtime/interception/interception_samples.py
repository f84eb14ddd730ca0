"""The interceptors of a virtual cluster in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.runtime.interception.judging import Judges
from mesh.telemetry.metric_definitions import (
    INTERCEPTOR_RECORDS,
    INTERCEPTOR_SECONDS,
    INTERCEPTOR_TIMEOUTS,
    INTERCEPTOR_WORKERS,
    INTERCEPTOR_WORKERS_LOST,
    Sample,
)


def samples_of(judges: Judges) -> Iterator[Sample]:
    for (name, topic), count in sorted(judges.counts.records.items()):
        for outcome in ("kept", "changed", "dropped", "rejected", "failed"):
            yield Sample(INTERCEPTOR_RECORDS, (judges.name, name, topic, outcome), getattr(count, outcome))
        yield Sample(INTERCEPTOR_SECONDS, (judges.name, name, topic), count.seconds)
    for name, timeouts in sorted(judges.counts.timeouts.items()):
        yield Sample(INTERCEPTOR_TIMEOUTS, (judges.name, name), timeouts)
    if judges.workers is not None:
        yield Sample(INTERCEPTOR_WORKERS, (judges.name,), judges.workers.alive)
        yield Sample(INTERCEPTOR_WORKERS_LOST, (judges.name,), judges.workers.lost)
