"""Groups join a cluster again one after the other, also those of several pools."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from mesh.app.renewing import GroupRenewal
from mesh.records.spans import ClusterName
from mesh.tasks import OwnedTask, TaskName, reporting
from tests.planted import Planting, plants
from tests.test_tasks import Reports

pytestmark = pytest.mark.anyio
EU, US = ClusterName("eu"), ClusterName("us")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Pool:
    """A pool that notes when its groups join a cluster again."""

    def __init__(self, name: str, steps: list[str], may_end: asyncio.Event) -> None:
        self._name = name
        self._steps = steps
        self._may_end = may_end

    async def renew(self, cluster: ClusterName, grace: float) -> None:
        self._steps.append(f"{self._name} {cluster} begins, {grace:g} s")
        await self._may_end.wait()
        self._steps.append(f"{self._name} {cluster} ends")


async def test_one_pool_and_one_cluster_at_a_time() -> None:
    steps: list[str] = []
    may_end = asyncio.Event()
    pools: list[Any] = [Pool("first", steps, may_end), Pool("second", steps, may_end)]
    renewal = GroupRenewal(lambda: pools, lambda: 6.0)
    renewal.soon(EU)
    renewal.soon(US)
    await asyncio.sleep(0)
    assert steps == ["first eu begins, 6 s"]
    tasks = set(renewal._tasks)
    may_end.set()
    await asyncio.wait(tasks)
    assert [step.removesuffix(", 6 s") for step in steps] == [
        f"{pool} {cluster} {what}"
        for cluster in (EU, US)
        for pool in ("first", "second")
        for what in ("begins", "ends")
    ]
    assert not renewal._tasks


async def test_it_ends_when_the_process_stops() -> None:
    steps: list[str] = []
    pools: list[Any] = [Pool("first", steps, asyncio.Event())]
    renewal = GroupRenewal(lambda: pools, lambda: 6.0)
    renewal.soon(EU)
    await asyncio.sleep(0)
    (task,) = renewal._tasks
    renewal.close()
    await asyncio.wait([task])
    assert steps == ["first eu begins, 6 s"]


async def test_a_failure_in_one_pool_keeps_no_other_one_from_its_turn() -> None:
    steps: list[str] = []
    may_end = asyncio.Event()
    may_end.set()
    broken: Any = Mock(renew=AsyncMock(side_effect=KeyError("bug")))
    pools: list[Any] = [broken, Pool("second", steps, may_end)]
    renewal, told = GroupRenewal(lambda: pools, lambda: 6.0), Reports()
    with reporting(told):
        renewal.soon(EU)
        await asyncio.wait(set(renewal._tasks))
    assert steps == ["second eu begins, 6 s", "second eu ends"]
    ((task, problem, rest),) = told.failures
    assert (task, str(problem), rest) == (OwnedTask(TaskName.GROUP_RENEWAL, cluster="eu"), "'bug'", None)


@plants(TaskName.GROUP_RENEWAL)
async def test_a_failure_at_any_await_keeps_no_later_renewal_from_its_turn(planting: Planting) -> None:
    steps: list[str] = []
    may_end = asyncio.Event()
    may_end.set()
    pools: list[Any] = [Pool("first", steps, may_end), Pool("second", steps, may_end)]
    renewal = GroupRenewal(lambda: pools, lambda: 6.0)
    with planting.into_task():
        renewal.soon(EU)
        await asyncio.wait(set(renewal._tasks))
    steps.clear()
    renewal.soon(US)
    await asyncio.wait(set(renewal._tasks))
    assert steps == [f"{pool} us {step}" for pool in ("first", "second") for step in ("begins, 6 s", "ends")]
