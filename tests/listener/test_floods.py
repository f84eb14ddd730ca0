"""A client that behaves, beside strangers that do not: it keeps its rate, and is never refused anything."""

from __future__ import annotations

import asyncio
import resource
import socket
import time

import anyio
import pytest

from tests.listener.attack import PATIENCE, WellBehaved, victim
from tests.listener.flood import FLOODS, IDLE, Stranger
from tests.listener.fuzz import MAX_GROWTH_KIB
from tests.pool.names import source as source_of
from tests.pool.names import value_of

LEAST_SHARE = 0.25
"""Of its rate without the strangers. Three processes share two processors with whatever else the machine does."""
FEW_FILES = 100
MEMBERS = 4


async def share_beside(kind: str, turns: int, seconds: float) -> float:
    """The rate of the client while strangers ask, by its rate while they do not, measured in turns."""
    client, beside, alone = WellBehaved(), 0.0, 0.0
    async with victim("--rationed") as target, anyio.create_task_group() as tasks:
        tasks.start_soon(client.live, target.port)
        await client.goes_on()
        for _ in range(turns):
            alone += await _rate(client, seconds)
            async with Stranger(kind, target.port):
                await client.goes_on()  # what strangers may ask at once is answered by then
                beside += await _rate(client, seconds)
            await client.goes_on()
        tasks.cancel_scope.cancel()
    return beside / alone


async def _rate(client: WellBehaved, seconds: float) -> float:
    cycles, began = client.cycles, time.monotonic()
    await asyncio.sleep(seconds)
    await client.goes_on()
    return (client.cycles - cycles) / (time.monotonic() - began)


async def group_beside(kind: str, turns: int, seconds: float) -> float:
    """The same for a group of several members. AssertionError if one of their records is lost, or comes twice."""
    members = [WellBehaved() for _ in range(MEMBERS)]
    rates: dict[bool, float] = {True: 0.0, False: 0.0}

    async def measure(is_beside: bool) -> None:
        before, began = sum(each.cycles for each in members), time.monotonic()
        await asyncio.sleep(seconds)
        async with anyio.create_task_group() as waiting:
            for each in members:
                waiting.start_soon(each.goes_on)
        rates[is_beside] += (sum(each.cycles for each in members) - before) / (time.monotonic() - began)

    async with victim("--rationed") as target, anyio.create_task_group() as tasks:
        for each in members:
            tasks.start_soon(each.live, target.port)
        for _ in range(turns):
            await measure(False)
            async with Stranger(kind, target.port):
                await measure(True)
        fed = await asyncio.to_thread(target.end_records)
        wanted = {f"{source.cluster}-{source.topic}-{source.partition}": source for source in map(source_of, range(4))}
        values = {value_of(wanted[name], offset) for name, end in fed.items() for offset in range(end)}
        with anyio.fail_after(PATIENCE):
            while sum(each.records for each in members) < len(values):
                await members[0].cycle()
        received = [value for each in members for value in each.values]
        assert len(received) == len(values)
        assert set(received) == values
        tasks.cancel_scope.cancel()
    return rates[True] / rates[False]


@pytest.mark.parametrize("kind", ["groups", "fetch"])
def test_a_group_loses_nothing_beside_a_flood(kind: str) -> None:
    assert asyncio.run(group_beside(kind, turns=1, seconds=0.2)) > 0


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("kind", FLOODS)
def test_a_group_beside_a_flood(kind: str) -> None:
    share = asyncio.run(group_beside(kind, turns=4, seconds=2.0))
    print(f"a group of {MEMBERS} beside a flood of {kind}: {share:.2f} of the rate")
    assert share > LEAST_SHARE


@pytest.mark.parametrize("kind", ["fetch", "versions"])
def test_a_client_goes_on_beside_a_flood(kind: str) -> None:
    """How fast is measured by the long tests: a second says nothing on a machine that is busy."""
    assert asyncio.run(share_beside(kind, turns=1, seconds=0.2)) > 0


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("kind", FLOODS)
def test_beside_a_flood(kind: str) -> None:
    share = asyncio.run(share_beside(kind, turns=4, seconds=2.0))
    print(f"beside a flood of {kind}: {share:.2f} of the rate")
    assert share > LEAST_SHARE


@pytest.mark.long
@pytest.mark.alone
def test_ten_thousand_connections_that_say_nothing_whole() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < IDLE + 500:
        pytest.fail(f"needs {IDLE + 500} open files: ulimit -Hn")

    async def run() -> None:
        client = WellBehaved()
        async with victim("--rationed") as target:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.live, target.port)
                await client.goes_on()
                alone = await _rate(client, 2.0)
                async with Stranger("idle", target.port) as stranger:
                    await client.goes_on()
                    share = await _rate(client, 2.0) / alone
                assert int(stranger.answer) > 0
                await client.goes_on()
                tasks.cancel_scope.cancel()
            print(f"beside {IDLE} idle connections: {share:.2f} of the rate")
            assert share > LEAST_SHARE
            assert target.stop() < 2 * MAX_GROWTH_KIB, "KiB"

    asyncio.run(run())


@pytest.mark.parametrize("counted", [True, False])
def test_when_open_files_run_out_the_listener_lives_on(counted: bool) -> None:
    """counted: connections are refused before they run out; else accept itself fails."""
    arguments = ("--descriptors", "230") if counted else ()

    async def run() -> None:
        client = WellBehaved()
        async with victim(*arguments, files=FEW_FILES) as target, anyio.create_task_group() as tasks:
            tasks.start_soon(client.live, target.port)
            await client.goes_on()
            crowd = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(2 * FEW_FILES)]
            await client.goes_on()
            for each in crowd:
                each.close()
            late = WellBehaved()
            await asyncio.sleep(0.1)
            async with anyio.create_task_group() as others:
                others.start_soon(late.live, target.port)
                await late.goes_on()
                others.cancel_scope.cancel()
            await client.goes_on()
            tasks.cancel_scope.cancel()

    asyncio.run(run())
