"""Measures the lag of the event loop. A callback that comes later than it was due shows that something blocked the
loop."""

from __future__ import annotations

import asyncio

import anyio

from mesh.telemetry.metrics import Metrics

INTERVAL = 0.5


async def measure_loop_lag(metrics: Metrics) -> None:
    """Measures the lag at each interval until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await anyio.sleep_until(due)
        metrics.loop_lag(max(loop.time() - due, 0.0))
