"""Workers whose interceptors misbehave: what becomes of their records, and of everybody else's meanwhile."""

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

from mesh.interceptors.chain import Count, InterceptorName, Judged, OnFailure, Placed
from mesh.interceptors.frames import Task
from mesh.interceptors.selection import Chosen, ConfiguredInterceptor, Isolation
from mesh.interceptors.spi import On, Where
from mesh.runtime.interception.judging import MOST_TOPICS, Judges, NotJudged, Result, Work
from mesh.runtime.interception.workers import Worker, WorkerLost, Workers, WorkerSettings
from mesh.telemetry.labels import LONGEST, OTHER
from tests.interceptors.fakes import batch, values
from tests.runtime.interception.installing import install
from tests.runtime.interception.misbehaving import Misbehaving
from tests.runtime.relay.loops import anyhow, until

pytestmark = pytest.mark.timeout(120)
NAME = InterceptorName("it")
chosen: dict[Judges, Chosen] = {}
"""Of those that are at work."""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"{Misbehaving.__module__}:{Misbehaving.__name__}", monkeypatch)


@asynccontextmanager
async def judges(
    count: int = 2,
    seconds: float = 10.0,
    retries: int = 1,
    on_failure: OnFailure = OnFailure.FAIL,
    memory: int = 128 << 20,
    tasks: int = 1_000,
    once: Path | None = None,
) -> AsyncIterator[Judges]:
    config = {"once": str(once)} if once is not None else {}
    sent: dict[str, Any] = {"name": NAME, "type": "misbehaving", "config": config, "on_failure": on_failure.value}
    workers = Workers("front", WorkerSettings(count, memory, tasks, [sent]))
    configured = ConfiguredInterceptor(
        NAME, "misbehaving", ("*",), frozenset(On), ("*",), seconds, retries, on_failure, Isolation.PROCESS
    )
    judges = Judges("front", {}, workers, time.monotonic)
    chosen[judges] = Chosen((configured,), (Placed(NAME, "orders"),))
    await until(lambda: workers.alive == count)
    try:
        yield judges
    finally:
        del chosen[judges]
        judges.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def work(judges: Judges, *contents: bytes, partition: int = 0) -> Work:
    it = chosen[judges]
    return Work(it, Task(it.steps, batch(*contents), Where("front", "orders", partition, On.FETCH)))


async def judged(judges: Judges, *contents: bytes) -> Result:
    (result,) = await judges.judged([work(judges, *contents)])
    return result


def value(result: Result) -> bytes | None:
    assert isinstance(result, Judged)
    ((_, found),) = values(result.records)
    return found


@anyhow
async def test_records_come_back() -> None:
    async with judges() as there:
        unchanged = await judged(there, b"a", b"b")
        assert isinstance(unchanged, Judged) and unchanged.records is None
        assert int(value(await judged(there, b"pid")) or b"") != os.getpid()


@anyhow
async def test_one_that_hangs_is_killed_and_its_records_are_tried_in_another(tmp_path: Path) -> None:
    async with judges(seconds=2.0, once=tmp_path / "once") as there:
        assert there.workers is not None
        before = set(there.workers.pids())
        assert value(await judged(there, b"hang")) == b"done"
        assert there.counts.timeouts == {NAME: 1}
        await until(lambda: there.workers is not None and there.workers.alive == 2)
        assert len(before & set(there.workers.pids())) == 1
        (killed,) = before - set(there.workers.pids())
        await until(lambda: not is_alive(killed))


@anyhow
async def test_what_always_hangs_has_timed_out_and_what_is_beside_it_has_not() -> None:
    async with judges(seconds=1.0) as there:
        results = await there.judged([work(there, b"hang"), work(there, b"pid", partition=1)])
        assert results[0] is NotJudged.TIMED_OUT
        assert value(results[1])
        assert there.counts.timeouts == {NAME: 2}


@pytest.mark.parametrize("how", [b"die", b"exit", b"eat", b"rubbish"])
@anyhow
async def test_one_that_ends_costs_a_retry(how: bytes, tmp_path: Path) -> None:
    async with judges(once=tmp_path / "once") as there:
        assert value(await judged(there, how)) == b"done"
        assert there.workers is not None and there.workers.lost == 1


@pytest.mark.parametrize("on_failure", [OnFailure.FAIL, OnFailure.PASS, OnFailure.DROP])
@anyhow
async def test_what_always_ends_one_is_dealt_with_by_on_failure(on_failure: OnFailure) -> None:
    async with judges(retries=0, on_failure=on_failure) as there:
        result = await judged(there, b"die")
        assert isinstance(result, Judged) and result.failure is not None
        assert result.is_failed is (on_failure is OnFailure.FAIL)
        assert result.records == (b"" if on_failure is OnFailure.DROP else None)
        if on_failure is OnFailure.DROP:
            assert (result.next_offset, result.kept_until) == (1, -1)
        assert value(await judged(there, b"pid")), "another one is there"


@anyhow
async def test_they_are_replaced_after_so_many_tasks() -> None:
    async with judges(count=1, tasks=2) as there:
        pids = [value(await judged(there, b"pid")) for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
        assert there.workers is not None and there.workers.lost == 0


@anyhow
async def test_one_that_cannot_begin_says_why() -> None:
    sent = {"name": NAME, "type": "there is none", "config": {}, "on_failure": "fail"}
    with pytest.raises(WorkerLost, match="UnknownType"):
        await Worker.start(WorkerSettings(1, 64 << 20, 10, [sent]))


@anyhow
async def test_the_loop_goes_on_meanwhile() -> None:
    """Its own turns are counted, not timed: many pass while an interceptor hangs."""
    async with judges(seconds=1.0, retries=0) as there:
        hanging = asyncio.get_running_loop().create_task(judged(there, b"hang"))
        turns = 0
        while not hanging.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100
        assert await hanging is NotJudged.TIMED_OUT


@anyhow
async def test_all_end_with_their_mesh() -> None:
    async with judges() as there:
        assert there.workers is not None
        pids = there.workers.pids()
    await until(lambda: not any(map(is_alive, pids)))


@anyhow
async def test_names_that_clients_make_up_are_counted_together() -> None:
    """Records of a topic that is not there are seen, too; the cluster refuses them later."""
    async with judges() as there:
        for number in range(MOST_TOPICS + 2):
            judged = Judged(counts={NAME: Count(kept=1)})
            there.count(judged, f"topic-{number}" + "x" * 300)
        topics = {topic for _, topic in there.counts.records}
        assert len(topics) == MOST_TOPICS + 1
        assert max(map(len, topics)) <= LONGEST
        assert there.counts.records[NAME, OTHER].kept == 2


@anyhow
async def test_idle_ones_that_are_killed_cost_no_try_and_are_replaced() -> None:
    async with judges(retries=0) as there:
        assert there.workers is not None
        killed = set(there.workers.pids())
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: there.workers is not None and not killed & set(there.workers.pids()))
        results = await there.judged([work(there, b"pid", partition=each) for each in range(4)])
        assert all(value(each) for each in results), "nothing was lost with them"
        assert there.workers.lost == 0, "they had no work"
