"""Groups join a cluster again one after the other, also those of several pools; each cluster by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from mesh.app.renewing import GroupRenewal
from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName
from mesh.tasks import OwnedTask, TaskName, reporting
from tests.fake_time import in_fake_time
from tests.planted import Planting, plants
from tests.test_tasks import Reports

pytestmark = pytest.mark.anyio
EU, US = ClusterName("eu"), ClusterName("us")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Pool:
    """A pool that notes when its groups join a cluster again. failures: exceptions of the next attempts."""

    def __init__(self, name: str, steps: list[str], failures: Iterable[Exception] = ()) -> None:
        self.name = name
        self.groups = [GroupId(f"{name}'s")]
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._steps = steps
        self._failures = list(failures)

    async def renew(self, group: GroupId, cluster: ClusterName, grace: float) -> None:
        self._steps.append(f"{group} {cluster} begins, {grace:g} s")
        if self._failures:
            raise self._failures.pop(0)
        await self.may_end.wait()
        self._steps.append(f"{group} {cluster} ends")


def renewal_of(*pools: Pool) -> GroupRenewal:
    found: list[Any] = list(pools)
    return GroupRenewal(lambda: found, lambda: 6.0)


def task_of(pool: Pool) -> OwnedTask:
    return OwnedTask(TaskName.GROUP_RENEWAL, pool.name, EU, pool.groups[0])


async def test_one_group_of_a_cluster_at_a_time() -> None:
    steps: list[str] = []
    first, second = Pool("first", steps), Pool("second", steps)
    first.may_end.clear()
    renewal = renewal_of(first, second)
    renewal.soon(EU)
    await asyncio.sleep(0)
    assert steps == ["first's eu begins, 6 s"]
    tasks = set(renewal._tasks.values())
    first.may_end.set()
    await asyncio.wait(tasks)
    assert [step.removesuffix(", 6 s") for step in steps] == [
        f"{pool}'s eu {step}" for pool in ("first", "second") for step in ("begins", "ends")
    ]
    assert not renewal._tasks


async def test_a_cluster_does_not_wait_for_another_one() -> None:
    steps: list[str] = []
    pool = Pool("first", steps)
    pool.may_end.clear()
    renewal = renewal_of(pool)
    renewal.soon(EU)
    renewal.soon(US)
    await asyncio.sleep(0)
    assert steps == ["first's eu begins, 6 s", "first's us begins, 6 s"]
    pool.may_end.set()
    await asyncio.wait(set(renewal._tasks.values()))


async def test_files_that_change_meanwhile() -> None:
    """All groups join again once more, however often the files have changed."""
    steps: list[str] = []
    pool = Pool("first", steps)
    pool.may_end.clear()
    renewal = renewal_of(pool)
    renewal.soon(EU)
    await asyncio.sleep(0)
    tasks = set(renewal._tasks.values())
    renewal.soon(EU)
    renewal.soon(EU)
    pool.may_end.set()
    await asyncio.wait(tasks)
    assert steps == ["first's eu begins, 6 s", "first's eu ends"] * 2


async def test_it_ends_when_the_process_stops() -> None:
    steps: list[str] = []
    pool = Pool("first", steps)
    pool.may_end.clear()
    renewal = renewal_of(pool)
    renewal.soon(EU)
    await asyncio.sleep(0)
    (task,) = renewal._tasks.values()
    renewal.close()
    await asyncio.wait([task])
    assert steps == ["first's eu begins, 6 s"]


@in_fake_time
async def test_a_group_that_failed_tries_again_after_a_rest() -> None:
    """It keeps no other group from its turn, and is reported as failing meanwhile."""
    steps: list[str] = []
    broken, second = Pool("first", steps, [KeyError("bug"), KeyError("bug")]), Pool("second", steps)
    renewal, told = renewal_of(broken, second), Reports()
    with reporting(told):
        renewal.soon(EU)
        await asyncio.sleep(0.5)
        assert steps == ["first's eu begins, 6 s", "second's eu begins, 6 s", "second's eu ends"]
        await asyncio.sleep(1)
        assert [(task, str(problem), rest) for task, problem, rest in told.failures] == [
            (task_of(broken), "'bug'", 1.0),
            (task_of(broken), "'bug'", 2.0),
        ]
        assert task_of(broken) not in told.working
        await asyncio.sleep(2)
    assert steps[3:] == ["first's eu begins, 6 s"] * 2 + ["first's eu ends"]
    assert task_of(broken) in told.working
    assert not renewal._tasks


@in_fake_time
async def test_a_group_that_failed_tries_at_once_when_files_change() -> None:
    steps: list[str] = []
    renewal, told = renewal_of(Pool("first", steps, [KeyError("bug")])), Reports()
    with reporting(told):
        renewal.soon(EU)
        await asyncio.sleep(0.1)
        renewal.soon(EU)
        await asyncio.sleep(0.1)
    assert steps == ["first's eu begins, 6 s", "first's eu begins, 6 s", "first's eu ends"]


@in_fake_time
async def test_a_group_whose_pool_ends_is_left_out() -> None:
    steps: list[str] = []
    pools: list[Any] = [Pool("first", steps, [KeyError("bug")])]
    renewal, told = GroupRenewal(lambda: pools, lambda: 6.0), Reports()
    with reporting(told):
        renewal.soon(EU)
        await asyncio.sleep(0.1)
        broken = pools.pop()
        await asyncio.sleep(1)
    assert steps == ["first's eu begins, 6 s"]
    assert task_of(broken) in told.forgotten
    assert not renewal._tasks


@plants(TaskName.GROUP_RENEWAL)
async def test_a_failure_at_any_await_keeps_no_later_renewal_from_its_turn(planting: Planting) -> None:
    steps: list[str] = []
    renewal = renewal_of(Pool("first", steps), Pool("second", steps))
    with planting.into_task():
        renewal.soon(EU)
        await asyncio.wait(set(renewal._tasks.values()))
    steps.clear()
    renewal.soon(US)
    await asyncio.wait(set(renewal._tasks.values()))
    assert steps == [f"{pool}'s us {step}" for pool in ("first", "second") for step in ("begins, 6 s", "ends")]
