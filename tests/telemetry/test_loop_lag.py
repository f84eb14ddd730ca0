from __future__ import annotations

import asyncio
import time

import anyio

from mesh.telemetry.loop_lag import INTERVAL, measure_loop_lag
from mesh.telemetry.metrics import Metrics


def test_what_blocks_the_loop_is_seen() -> None:
    class Recorder(Metrics):
        def loop_lag(self, seconds: float) -> None:
            lags.append(seconds)
            seen.set()

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(measure_loop_lag, Recorder())
            await asyncio.sleep(0)
            time.sleep(INTERVAL + 0.2)  # noqa: ASYNC251 - the loop is to be blocked
            with anyio.fail_after(30):
                await seen.wait()
            tasks.cancel_scope.cancel()

    lags: list[float] = []
    seen = anyio.Event()
    anyio.run(run)
    assert lags[0] >= 0.1
