"""Workers whose interceptors misbehave: how their own records and those of other clients fare."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mesh.interceptors.chain import ChainResult, InterceptorName, OnFailure, Placed, RecordCount
from mesh.interceptors.frames import Task
from mesh.interceptors.selection import Chosen, ConfiguredInterceptor, Isolation
from mesh.interceptors.spi import On, Where
from mesh.runtime.interception.interceptor_runner import (
    MOST_TOPICS,
    InterceptorRunner,
    InterceptorWork,
    NotIntercepted,
    Result,
)
from mesh.runtime.interception.workers import InterceptorWorker, WorkerLost, Workers, WorkerSettings
from mesh.telemetry.labels import LONGEST, OTHER
from tests.interceptors.fakes import batch, values
from tests.runtime.interception.installing import install
from tests.runtime.interception.misbehaving import Misbehaving
from tests.runtime.relay.loops import anyhow, until

pytestmark = pytest.mark.timeout(120)
NAME = InterceptorName("it")
chosen: dict[InterceptorRunner, Chosen] = {}
"""The selections of working interceptors."""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"{Misbehaving.__module__}:{Misbehaving.__name__}", monkeypatch)


@asynccontextmanager
async def runner(
    count: int = 2,
    seconds: float = 10.0,
    retries: int = 1,
    on_failure: OnFailure = OnFailure.FAIL,
    memory: int = 128 << 20,
    tasks: int = 1_000,
    once: Path | None = None,
) -> AsyncIterator[InterceptorRunner]:
    config = {"once": str(once)} if once is not None else {}
    sent: dict[str, Any] = {"name": NAME, "type": "misbehaving", "config": config, "on_failure": on_failure.value}
    workers = Workers("front", WorkerSettings(count, memory, tasks, [sent]))
    configured = ConfiguredInterceptor(
        NAME, "misbehaving", ("*",), frozenset(On), ("*",), seconds, retries, on_failure, Isolation.PROCESS
    )
    runner = InterceptorRunner("front", {}, workers, time.monotonic)
    chosen[runner] = Chosen((configured,), (Placed(NAME, "orders"),))
    await until(lambda: workers.alive == count)
    try:
        yield runner
    finally:
        del chosen[runner]
        runner.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def work(runner: InterceptorRunner, *contents: bytes, partition: int = 0) -> InterceptorWork:
    it = chosen[runner]
    return InterceptorWork(it, Task(it.steps, batch(*contents), Where("front", "orders", partition, On.FETCH)))


async def result_of(runner: InterceptorRunner, *contents: bytes) -> Result:
    (result,) = await runner.run([work(runner, *contents)])
    return result


def value(result: Result) -> bytes | None:
    assert isinstance(result, ChainResult)
    ((_, found),) = values(result.records)
    return found


@anyhow
async def test_records_come_back() -> None:
    async with runner() as there:
        unchanged = await result_of(there, b"a", b"b")
        assert isinstance(unchanged, ChainResult) and unchanged.records is None
        assert int(value(await result_of(there, b"pid")) or b"") != os.getpid()


@anyhow
async def test_one_that_hangs_is_killed_and_its_records_are_tried_in_another(tmp_path: Path) -> None:
    async with runner(seconds=2.0, once=tmp_path / "once") as there:
        assert there.workers is not None
        before = set(there.workers.pids())
        assert value(await result_of(there, b"hang")) == b"done"
        assert there.counts.timeouts == {NAME: 1}
        await until(lambda: there.workers is not None and there.workers.alive == 2)
        assert len(before & set(there.workers.pids())) == 1
        (killed,) = before - set(there.workers.pids())
        await until(lambda: not is_alive(killed))


@anyhow
async def test_what_always_hangs_has_timed_out_and_what_is_beside_it_has_not() -> None:
    async with runner(seconds=1.0) as there:
        results = await there.run([work(there, b"hang"), work(there, b"pid", partition=1)])
        assert results[0] is NotIntercepted.TIMED_OUT
        assert value(results[1])
        assert there.counts.timeouts == {NAME: 2}


@pytest.mark.parametrize("how", [b"die", b"exit", b"eat", b"rubbish"])
@anyhow
async def test_one_that_ends_costs_a_retry(how: bytes, tmp_path: Path) -> None:
    async with runner(once=tmp_path / "once") as there:
        assert value(await result_of(there, how)) == b"done"
        assert there.workers is not None and there.workers.lost == 1


@pytest.mark.parametrize("on_failure", [OnFailure.FAIL, OnFailure.PASS, OnFailure.DROP])
@anyhow
async def test_what_always_ends_one_is_dealt_with_by_on_failure(on_failure: OnFailure) -> None:
    async with runner(retries=0, on_failure=on_failure) as there:
        result = await result_of(there, b"die")
        assert isinstance(result, ChainResult) and result.failure is not None
        assert result.is_failed is (on_failure is OnFailure.FAIL)
        assert result.records == (b"" if on_failure is OnFailure.DROP else None)
        if on_failure is OnFailure.DROP:
            assert (result.next_offset, result.kept_until) == (1, -1)
        assert value(await result_of(there, b"pid")), "another one is there"


@anyhow
async def test_they_are_replaced_after_so_many_tasks() -> None:
    async with runner(count=1, tasks=2) as there:
        pids = [value(await result_of(there, b"pid")) for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
        assert there.workers is not None and there.workers.lost == 0


@anyhow
async def test_one_that_cannot_begin_says_why() -> None:
    sent = {"name": NAME, "type": "there is none", "config": {}, "on_failure": "fail"}
    with pytest.raises(WorkerLost, match="UnknownInterceptorType"):
        await InterceptorWorker.start(WorkerSettings(1, 64 << 20, 10, [sent]))


@anyhow
async def test_the_loop_goes_on_meanwhile() -> None:
    """The test counts turns of the loop instead of time: many pass while an interceptor hangs."""
    async with runner(seconds=1.0, retries=0) as there:
        hanging = asyncio.get_running_loop().create_task(result_of(there, b"hang"))
        turns = 0
        while not hanging.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100
        assert await hanging is NotIntercepted.TIMED_OUT


@anyhow
async def test_all_end_with_their_mesh() -> None:
    async with runner() as there:
        assert there.workers is not None
        pids = there.workers.pids()
    await until(lambda: not any(map(is_alive, pids)))


@anyhow
async def test_names_that_clients_make_up_are_counted_together() -> None:
    """Interceptors see records of a topic that does not exist, too; the cluster refuses them later."""
    async with runner() as there:
        for number in range(MOST_TOPICS + 2):
            judged = ChainResult(counts={NAME: RecordCount(kept=1)})
            there.count(judged, f"topic-{number}" + "x" * 300)
        topics = {topic for _, topic in there.counts.records}
        assert len(topics) == MOST_TOPICS + 1
        assert max(map(len, topics)) <= LONGEST
        assert there.counts.records[NAME, OTHER].kept == 2


@anyhow
async def test_idle_ones_that_are_killed_cost_no_try_and_are_replaced() -> None:
    async with runner(retries=0) as there:
        assert there.workers is not None
        killed = set(there.workers.pids())
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: there.workers is not None and not killed & set(there.workers.pids()))
        results = await there.run([work(there, b"pid", partition=each) for each in range(4)])
        assert all(value(each) for each in results), "nothing was lost with them"
        assert there.workers.lost == 0, "they had no work"
