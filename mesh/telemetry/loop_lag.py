"""Measures the lag of the event loop, and counts its tasks. A callback that comes later than it was due shows that
something blocked the loop. Tasks that only grow in number are never ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import anyio

from mesh.telemetry.metric_definitions import EVENT_LOOP_TASKS, MetricSample
from mesh.telemetry.metrics import Metrics

INTERVAL = 0.5


async def measure_loop_lag(metrics: Metrics) -> None:
    """Measures the lag at each interval until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await anyio.sleep_until(due)
        metrics.loop_lag(max(loop.time() - due, 0.0))


def samples() -> Iterator[MetricSample]:
    """Yields the samples of the running event loop."""
    yield MetricSample(EVENT_LOOP_TASKS, (), len(asyncio.all_tasks()))
