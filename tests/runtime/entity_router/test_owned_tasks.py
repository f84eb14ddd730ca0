"""Unforeseen exceptions in tasks of routers: the mesh reports them, and the task starts again or ends alone."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from mesh.records.spans import ClusterName
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.entity_router.groups.elsewhere import ASK_DELAY, MembersElsewhere
from mesh.runtime.entity_router.groups.offset_keeper import OffsetKeeper
from mesh.runtime.entity_router.moves import mover as mover_module
from mesh.runtime.entity_router.moves.mover import Mover
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.topologies import INTERVAL
from mesh.tasks import OwnedTask, TaskName, keep
from tests.fake_time import in_fake_time
from tests.planted import Planting, plants
from tests.runtime.entity_router.moves.test_moves import TO_US, at, ready
from tests.runtime.entity_router.moves.world import moving
from tests.runtime.relay.loops import anyhow, until
from tests.test_tasks import FAILURES

SHOP, EU = "shop", ClusterName("eu")
AFTER_ALL = 10_000.0
"""Seconds in which a task of these tests has five awaits."""


@plants(TaskName.TOPOLOGIES)
@in_fake_time
async def test_descriptions_are_cleaned_up_again_after_a_failure(planting: Planting) -> None:
    made = Mock(groups=Mock(return_value=[]), close=AsyncMock(), cleanup_cycles=0)
    made.name = SHOP
    task = OwnedTask(TaskName.TOPOLOGIES, SHOP, EU)
    with planting.into_task(patience=AFTER_ALL) as reports:
        kept = ClusterTopologies(lambda _: made)
        kept.of(Mock(cluster=EU))
        await asyncio.sleep(AFTER_ALL + 1)
        before = made.groups.call_count
        await asyncio.sleep(2 * INTERVAL)
        assert made.groups.call_count > before
        await kept.close()
    assert [(each, rest) for each, _, rest in reports.failures] == [(task, 1)]
    assert (reports.working, reports.forgotten) == ([task], [task])


@plants(TaskName.GROUP_OFFSETS)
@in_fake_time
async def test_offsets_are_kept_after_a_failure(planting: Planting) -> None:
    with planting.into_task(patience=AFTER_ALL) as reports:
        keeper = OffsetKeeper(Mock(), Mock())
        later = lambda group: keeper._checks.failed(group, 60.0, keeper._now())  # noqa: E731 - a short one
        keeper._check = AsyncMock(side_effect=later)  # type: ignore[method-assign]
        for group in range(5):
            keeper.notice(f"billing-{group}", LeafNumber(0))
            await asyncio.sleep(1)
        await asyncio.sleep(AFTER_ALL + 1)
        before = keeper._check.await_count
        keeper.notice("shipping", LeafNumber(0))
        await asyncio.sleep(AFTER_ALL)
        assert keeper._check.await_count > before
        keeper.close()
        await asyncio.sleep(0)
    assert [(task, rest) for task, _, rest in reports.failures] == [(OwnedTask(TaskName.GROUP_OFFSETS), 1)]


@plants(TaskName.MEMBERS_ELSEWHERE)
@in_fake_time
async def test_members_elsewhere_are_asked_for_again_after_a_failure(planting: Planting) -> None:
    services = MagicMock(described=AsyncMock(return_value={"members": [{"client_id": "a", "client_host": "/h"}]}))
    services.described_consumers = AsyncMock(return_value=None)
    with planting.into_task(patience=AFTER_ALL) as reports:
        members = MembersElsewhere(services)
        members.refused("billing", LeafNumber(0))
        await asyncio.sleep(AFTER_ALL + 1)
        before = services.described.await_count
        members.refused("billing", LeafNumber(0))
        await asyncio.sleep(ASK_DELAY + 1)
        assert services.described.await_count == before + 1
        members.close()
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.MEMBERS_ELSEWHERE, group="billing")]


@plants(TaskName.MOVES)
@in_fake_time
async def test_moves_are_read_again_after_a_failure(planting: Planting) -> None:
    gate, store = Mock(), Mock(groups=Mock(return_value=[]))
    with planting.into_task() as reports:
        moves = Moves(SHOP, store, Mock(), gate, lambda _: True, Mock(), 1.0, lambda: 1.0)
        await asyncio.sleep(2)
        assert (store.groups.call_count, gate.know.call_count) == (2, 2)
        moves.close()
        await asyncio.sleep(0)
    assert [(task, rest) for task, _, rest in reports.failures] == [(OwnedTask(TaskName.MOVES, SHOP), 1)]


@plants(TaskName.MOVE)
@anyhow
async def test_a_move_that_fails_is_told_and_can_be_cancelled(planting: Planting) -> None:
    """The move handles every exception but one behind its end. Clients stay where they are."""
    with pytest.MonkeyPatch.context() as fast:
        for name in ("CHECK_INTERVAL", "SETTLED", "BACKOFF"):
            fast.setattr(mover_module, name, 0.005)
        async with moving() as made:
            await ready(made)
            with planting.into_task(BaseException) as reports:
                await made.moves.begin(TO_US)
                await until(lambda: reports.failures or any(move.problem for move in made.moves.all))
            if reports.failures:
                return
            made.moves.cancel("orders")
            await until(lambda: not made.moves.all)
            await made.moves.begin(TO_US)
            await at(made, "us")


@in_fake_time
async def test_a_move_that_fails_is_given_up_whatever_the_exception_is() -> None:
    for name, run in FAILURES.items():
        mover = Mover(Mock(virtual_cluster=SHOP), Mock(to_client=Mock()))
        mover.machine = Mock(failed=Mock(return_value=[]))  # type: ignore[misc]
        task = mover._begin(run())  # type: ignore[arg-type]
        await asyncio.wait([task])
        mover.machine.failed.assert_called_once()
        assert not mover._tasks, name


@plants(TaskName.LEADERS)
@in_fake_time
async def test_leaders_are_looked_up_again_after_a_failure(planting: Planting) -> None:
    brokers = Mock(interval=10.0, ask_any=AsyncMock(return_value={"topics": []}))
    cluster = OneNodeCluster(brokers, 1.0)
    cluster.leaders.take = Mock()  # type: ignore[method-assign]
    with planting.into_task(patience=AFTER_ALL) as reports:
        watching = keep(OwnedTask(TaskName.LEADERS, SHOP), cluster.watch)
        for _ in range(10):
            cluster.mark_stale(["orders"])
            await asyncio.sleep(9)
        assert brokers.ask_any.await_count >= 8
        watching.cancel()
        await asyncio.wait([watching])
    assert [(task, rest) for task, _, rest in reports.failures] == [(OwnedTask(TaskName.LEADERS, SHOP), 1)]


@plants(TaskName.BROKERS)
@in_fake_time
async def test_brokers_are_checked_again_after_a_failure(planting: Planting) -> None:
    nodes = RelayNodes.__new__(RelayNodes)
    nodes._check_soon, nodes._links = asyncio.Event(), Mock()
    nodes.interval, nodes._check = 10.0, AsyncMock()  # type: ignore[method-assign]
    with planting.into_task(patience=AFTER_ALL) as reports:
        watching = keep(OwnedTask(TaskName.BROKERS, SHOP, EU), nodes.watch)
        await asyncio.sleep(100)
        assert nodes._check.await_count >= 8
        nodes._links.close.assert_not_called()
        watching.cancel()
        await asyncio.wait([watching])
        nodes._links.close.assert_called_once_with()
    assert [(task, rest) for task, _, rest in reports.failures] == [(OwnedTask(TaskName.BROKERS, SHOP, EU), 1)]
