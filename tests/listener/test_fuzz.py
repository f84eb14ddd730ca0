"""The whole server under fuzz, in a child process that must stay alive."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import anyio
import pytest

from tests.listener import fuzz
from tests.listener.attack import WellBehaved, attack, victim
from tests.listener.fuzz import MAX_GROWTH_KIB
from tests.wire.entities import frame

CROWD = 1_000


@pytest.mark.parametrize("requests", [20_000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.deep])])
def test_many_requests_through_handlers_and_pools(requests: int) -> None:
    child: subprocess.CompletedProcess[str] = fuzz.in_child(seed=3, requests=requests)
    assert child.returncode == 0, child.stderr[-4_000:]
    assert child.stdout.splitlines()[-1].startswith(f"{requests} requests, ")


def test_over_sockets_beside_a_client_that_behaves() -> None:
    outcome = asyncio.run(attack(seed=5, requests=10_000))
    assert outcome.cycles >= 3


def test_a_thousand_connections_that_say_nothing_whole() -> None:
    """Idle ones, half frames, and lengths with nothing behind them; a well-behaved client does not notice."""

    async def run() -> None:
        client = WellBehaved()
        async with victim() as target:
            writers = []
            for number in range(CROWD):
                _, writer = await asyncio.open_connection("127.0.0.1", target.port)
                writer.write((b"", frame(bytes(1_000))[:-1], b"\0\x40\0\0")[number % 3])
                writers.append(writer)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.live, target.port)
                await client.goes_on()
                tasks.cancel_scope.cancel()
            for writer in writers:
                writer.transport.abort()
            assert target.stop() < MAX_GROWTH_KIB / 4, "KiB"

    asyncio.run(run())


def test_a_client_that_asks_and_never_reads() -> None:
    """The mesh stops reading from it when the kernel's buffers are full, long before it has answered all its
    requests."""

    async def run() -> None:
        asking = frame(b"\0\x12\0\x63" + bytes(4)) * 1_000
        async with victim() as target:
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            is_blocked = False
            for _ in range(20_000):
                writer.write(asking)
                with anyio.move_on_after(2) as waited:
                    await writer.drain()
                if waited.cancelled_caught:
                    is_blocked = True
                    break
            assert is_blocked
            client = WellBehaved()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.live, target.port)
                await client.goes_on()
                tasks.cancel_scope.cancel()
            assert reader.at_eof() is False
            writer.transport.abort()
            assert target.stop() < MAX_GROWTH_KIB / 8, "KiB"

    asyncio.run(run())


def test_a_bug_would_end_it() -> None:
    """The fuzz finds what it should find: a handler that fails for one in many requests."""
    broken = """
import dataclasses
from mesh.runtime.pool.pool_requests import PoolRequests
from mesh.wire.apis import ApiKey
from tests.listener import fuzz
api = PoolRequests.table[ApiKey.HEARTBEAT]
PoolRequests.table = {**PoolRequests.table, api.key: dataclasses.replace(api, respond=lambda *_: 1 // 0)}
fuzz.let_failures_through()
fuzz.run_handlers(seed=3, requests=5_000)
"""
    child = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, check=False)
    assert child.returncode != 0
    assert "ZeroDivisionError" in child.stderr
    assert "of seed 3: " in child.stderr
