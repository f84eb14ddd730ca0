"""Unforeseen exceptions in tasks of routers: the mesh reports them, and the task starts again or ends alone."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, Mock

from mesh.records.spans import ClusterName
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.entity_router.groups.elsewhere import ASK_DELAY, MembersElsewhere
from mesh.runtime.entity_router.groups.offset_keeper import OffsetKeeper
from mesh.runtime.entity_router.moves.mover import Mover
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.tasks import OwnedTask, TaskName, keep, reporting
from tests.fake_time import in_fake_time
from tests.test_tasks import FAILURES, Reports

IN_ROUTERS = {
    TaskName.BROKERS,
    TaskName.GROUP_OFFSETS,
    TaskName.LEADERS,
    TaskName.MEMBERS_ELSEWHERE,
    TaskName.MOVE,
    TaskName.MOVES,
    TaskName.TOPOLOGIES,
}
"""tests/runtime/relay/test_bugs_and_sessions.py has the look-up of brokers."""
SHOP, EU = "shop", ClusterName("eu")
BROKEN = KeyError("relay")


@in_fake_time
async def test_descriptions_are_cleaned_up_again_after_a_failure() -> None:
    reports, made = Reports(), Mock(groups=Mock(side_effect=BROKEN))
    made.name = SHOP
    with reporting(reports):
        made.close = AsyncMock()
        kept = ClusterTopologies(lambda _: made)
        kept.of(Mock(cluster=EU))
        await asyncio.sleep(2_000)
        await kept.close()
    assert len(reports.failures) > 1
    assert {task for task, _, _ in reports.failures} == {OwnedTask(TaskName.TOPOLOGIES, SHOP, EU)}
    assert reports.forgotten == [OwnedTask(TaskName.TOPOLOGIES, SHOP, EU)]


@in_fake_time
async def test_offsets_are_kept_after_a_failure() -> None:
    reports = Reports()
    with reporting(reports):
        keeper = OffsetKeeper(Mock(), Mock())
        keeper._news.clear = Mock(side_effect=BROKEN)  # type: ignore[method-assign]
        keeper.notice("billing", LeafNumber(0))
        await asyncio.sleep(5)
        keeper.close()
        await asyncio.sleep(0)
    kept = [rest for task, _, rest in reports.failures if task == OwnedTask(TaskName.GROUP_OFFSETS)]
    assert kept == [1, 2, 4]


@in_fake_time
async def test_members_elsewhere_are_asked_for_again_after_a_failure() -> None:
    reports = Reports()
    with reporting(reports):
        members = MembersElsewhere(Mock())
        for _ in range(2):
            members.refused("billing", LeafNumber(0))
            await asyncio.sleep(ASK_DELAY + 1)
    told = [task for task, _, _ in reports.failures]
    assert told == [OwnedTask(TaskName.MEMBERS_ELSEWHERE, group="billing")] * 2


@in_fake_time
async def test_moves_are_read_again_after_a_failure() -> None:
    reports, gate = Reports(), Mock()
    store = Mock(groups=Mock(side_effect=[BROKEN, BROKEN, []]))
    with reporting(reports):
        moves = Moves(SHOP, store, Mock(), gate, lambda _: True, Mock(), 1.0, lambda: 1.0)
        await asyncio.sleep(2)
        gate.know.assert_not_called()
        await asyncio.sleep(10)
        gate.know.assert_called_once_with()
        moves.close()
        await asyncio.sleep(0)
    assert [(task, rest) for task, _, rest in reports.failures] == [
        (OwnedTask(TaskName.MOVES, SHOP), 1),
        (OwnedTask(TaskName.MOVES, SHOP), 2),
    ]


@in_fake_time
async def test_a_move_that_fails_is_given_up_whatever_the_exception_is() -> None:
    for name, run in FAILURES.items():
        mover = Mover(Mock(virtual_cluster=SHOP), Mock())
        mover.machine = Mock(failed=Mock(return_value=[]))  # type: ignore[misc]
        task = mover._begin(run())  # type: ignore[arg-type]
        await asyncio.wait([task])
        mover.machine.failed.assert_called_once()
        assert not mover._tasks, name


@in_fake_time
async def test_leaders_are_looked_up_again_after_a_failure() -> None:
    reports, cluster = Reports(), OneNodeCluster(Mock(interval=10.0), 1.0)
    cluster._refresh = Mock(side_effect=BROKEN)  # type: ignore[method-assign]
    with reporting(reports):
        watching = keep(OwnedTask(TaskName.LEADERS, SHOP), cluster.watch)
        for _ in range(3):
            cluster.mark_stale(["orders"])
            await asyncio.sleep(9)
        watching.cancel()
        await asyncio.wait([watching])
    assert [(task, rest) for task, _, rest in reports.failures] == [
        (OwnedTask(TaskName.LEADERS, SHOP), 1),
        (OwnedTask(TaskName.LEADERS, SHOP), 2),
        (OwnedTask(TaskName.LEADERS, SHOP), 4),
    ]
