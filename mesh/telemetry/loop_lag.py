"""How late the event loop is: a callback that was due a while ago says that something blocked it."""

from __future__ import annotations

import asyncio

import anyio

from mesh.telemetry.metrics import Metrics

INTERVAL = 0.5


async def measure_loop_lag(metrics: Metrics) -> None:
    """Until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await anyio.sleep_until(due)
        metrics.loop_lag(max(loop.time() - due, 0.0))
