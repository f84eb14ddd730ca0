"""A well-behaved client beside strangers that flood the mesh: it keeps its rate, and is never refused."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import pytest

from tests.listener.attack import PATIENCE, Victim, WellBehaved, victim
from tests.listener.flood import FLOODS, IDLE, Stranger
from tests.listener.fuzz import CROWDED, MAX_GROWTH_KIB
from tests.pool.names import source as source_of
from tests.pool.names import value_of

FEW_FILES = 100
LARGEST_COST = 0.5
"""The most CPU that one request of a stranger may take, in cycles of a client: a Fetch of new records, their commit and
a Heartbeat. A tenth is usual."""
LARGEST_COST_BESIDE_IDLE = 2.0
"""The most CPU that a cycle may take beside idle connections, divided by its CPU without them."""


@dataclass(slots=True)
class Usage:
    """Sums over turns. cycles: of all well-behaved clients. cpu: of the mesh. Both times are in seconds."""

    cycles: int = 0
    cpu: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Flood:
    """The mesh's work with and without strangers. answers: what the strangers got.

    The rate of the clients beside them depends on the machine: three processes share two processors with whatever else
    runs there. Two things do not, and bound what strangers can take: the requests per second that are answered, and the
    CPU of the mesh for one of them, in cycles of a client.
    """

    alone: Usage
    beside: Usage
    answers: int

    @property
    def share(self) -> float:
        """The rate of the clients beside strangers, divided by their rate without them."""
        return self.beside.cycles / self.beside.seconds / (self.alone.cycles / self.alone.seconds)

    @property
    def cost(self) -> float:
        """The mesh's CPU for one request of strangers, divided by its CPU for one cycle of a client."""
        cycle = self.alone.cpu / self.alone.cycles
        return (self.beside.cpu - self.beside.cycles * cycle) / self.answers / cycle


async def flood_beside(kind: str, turns: int, seconds: float, members: int = 1) -> Flood:
    """Well-behaved clients of one group, by turns alone and while strangers flood the mesh. Raises AssertionError if a
    client is refused anything, or if one of their records is lost or comes twice."""
    clients = [WellBehaved() for _ in range(members)]
    alone, beside, answers = Usage(), Usage(), 0
    async with victim("--rationed") as target, anyio.create_task_group() as tasks:
        for each in clients:
            tasks.start_soon(each.live, target.port)
        await _all_go_on(clients)
        for _ in range(turns):
            with _measured(alone, target, clients):
                await asyncio.sleep(seconds)
                await _all_go_on(clients)
            with _measured(beside, target, clients):
                async with Stranger(kind, target.port) as stranger:
                    await asyncio.sleep(seconds)
                    await _all_go_on(clients)
            answers += int(stranger.answer)
        await _get_the_rest(target, clients)
        tasks.cancel_scope.cancel()
    return Flood(alone, beside, answers)


async def _all_go_on(clients: Sequence[WellBehaved]) -> None:
    async with anyio.create_task_group() as waiting:
        for each in clients:
            waiting.start_soon(each.goes_on)


@contextmanager
def _measured(usage: Usage, target: Victim, clients: Sequence[WellBehaved]) -> Iterator[None]:
    cycles, cpu, began = sum(each.cycles for each in clients), target.cpu(), time.monotonic()
    yield
    usage.cycles += sum(each.cycles for each in clients) - cycles
    usage.cpu += target.cpu() - cpu
    usage.seconds += time.monotonic() - began


async def _get_the_rest(target: Victim, clients: Sequence[WellBehaved]) -> None:
    fed = await asyncio.to_thread(target.end_records)
    wanted = {f"{source.cluster}-{source.topic}-{source.partition}": source for source in map(source_of, range(4))}
    values = {value_of(wanted[name], offset) for name, end in fed.items() for offset in range(end)}
    with anyio.fail_after(PATIENCE):
        while sum(each.records for each in clients) < len(values):
            await clients[0].cycle()
    received = [value for each in clients for value in each.values]
    assert len(received) == len(values)
    assert set(received) == values


@pytest.mark.long
@pytest.mark.parametrize(("kind", "members"), [("groups", 4), ("fetch", 4), ("fetch", 1), ("versions", 1)])
def test_clients_go_on_beside_a_flood(kind: str, members: int) -> None:
    """The long tests measure what it costs: a second shows little."""
    assert asyncio.run(flood_beside(kind, turns=1, seconds=0.2, members=members)).answers > 0


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_takes_a_bounded_part(kind: str) -> None:
    turns = 3
    flood = asyncio.run(flood_beside(kind, turns, seconds=2.0, members=4))
    print(
        f"{flood.answers / flood.beside.seconds:.0f} requests/s, each {flood.cost:.2f} cycles; share {flood.share:.2f}"
    )
    assert 0 < flood.answers <= CROWDED.request_rate_per_address * (flood.beside.seconds + turns)  # a burst each turn
    assert flood.cost < LARGEST_COST


@pytest.mark.long
@pytest.mark.alone
def test_ten_thousand_connections_that_say_nothing_whole() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < IDLE + 500:
        pytest.fail(f"needs {IDLE + 500} open files: ulimit -Hn")

    async def run() -> None:
        clients, alone, beside = [WellBehaved()], Usage(), Usage()
        async with victim("--rationed") as target:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(clients[0].live, target.port)
                await _all_go_on(clients)
                with _measured(alone, target, clients):
                    await asyncio.sleep(2.0)
                async with Stranger("idle", target.port) as stranger:
                    await _all_go_on(clients)
                    with _measured(beside, target, clients):
                        await asyncio.sleep(2.0)
                        await _all_go_on(clients)
                assert int(stranger.answer) > 0
                await _all_go_on(clients)
                tasks.cancel_scope.cancel()
            cost = beside.cpu / beside.cycles / (alone.cpu / alone.cycles)
            print(f"beside {IDLE} idle connections a cycle takes {cost:.2f} of its CPU")
            assert cost < LARGEST_COST_BESIDE_IDLE
            assert target.stop() < 2 * MAX_GROWTH_KIB, "KiB"

    asyncio.run(run())


@pytest.mark.parametrize("counted", [True, False])
def test_when_open_files_run_out_the_listener_lives_on(counted: bool) -> None:
    """counted: connections are refused before files run out; else accept itself fails."""
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
