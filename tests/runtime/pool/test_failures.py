"""Unforeseen exceptions in the effects of a pool: its group recovers, and no client is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from mesh.listener.requests import PendingRequest
from mesh.pool.common.effects import ChangeGroupConfigs
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import DeleteGroups
from mesh.pool.common.settings import PoolSettings
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.pool.share_groups import ShareGroups
from mesh.runtime.pool.tool_queries import ToolQueries
from mesh.tasks import OwnedTask, TaskName, reporting
from mesh.upstream.engine import EngineEvent, EngineFailed
from mesh.wire.apis import ApiKey
from tests.fake_time import in_fake_time
from tests.planted import Planting, plants
from tests.pool.harness import EU, US
from tests.runtime.pool.harness import Bench, FakeEngine, Peer
from tests.runtime.pool.test_engines import consuming
from tests.test_tasks import Reports
from tests.upstream.store.memory import MemoryStore


@in_fake_time
async def test_an_engine_that_cannot_be_made_is_made_later() -> None:
    bench, attempts = Bench(), list[float]()
    make = bench.create

    def create(group: GroupId, cluster: ClusterName, deliver: Callable[[EngineEvent], None]) -> FakeEngine:
        if cluster == EU and len(attempts) < 3:
            attempts.append(asyncio.get_running_loop().time())
            raise OSError(24, "Too many open files")
        return make(group, cluster, deliver)

    bench.create = create
    peer = await consuming(bench)
    fetch = peer.fetch(peer.positions(), max_wait=20_000)
    bench.engine(US).assign()
    bench.engine(US).produce(2, first=0)
    assert peer.answer(fetch).responses[0].partitions[2].records, "the other cluster is not concerned"
    (described,) = bench.upstream_health.described()
    assert (described["cluster"], described["group"]) == (EU, "shop")
    assert described["reason"] == "OSError(24, 'Too many open files')"
    await asyncio.sleep(8)
    assert [each - attempts[0] for each in attempts] == [0, 1, 3]
    assert bench.engine(EU).commands[0] == ("subscribe", frozenset(["orders"]))
    fetch = peer.fetch({0: peer.positions()[0]}, max_wait=5_000)
    bench.engine(EU).assign()
    bench.engine(EU).produce(0, first=0)
    assert peer.answer(fetch).responses[0].partitions[0].records


@in_fake_time
async def test_an_engine_that_cannot_be_made_again_is_made_later() -> None:
    bench = Bench()
    await consuming(bench)
    make, is_broken = bench.create, [True]

    def create(*arguments: Any) -> FakeEngine:
        if is_broken[0]:
            raise RuntimeError("can't start new thread")
        return make(*arguments)

    bench.create = create
    before = bench.engine(EU)
    before.deliver(EngineFailed("a bug", ""))
    await asyncio.sleep(10)
    assert bench.engine(EU) is before
    is_broken[0] = False
    await asyncio.sleep(10)
    assert bench.engine(EU).commands[0] == ("subscribe", frozenset(["orders"]))


@in_fake_time
async def test_a_pool_that_ends_while_its_engine_cannot_be_made_is_not_tried_again() -> None:
    bench, attempts = Bench(), list[ClusterName]()

    def create(_group: GroupId, cluster: ClusterName, _deliver: object) -> FakeEngine:
        attempts.append(cluster)
        raise KeyError("relay")

    bench.create = create
    peer = await consuming(bench)
    await asyncio.sleep(4)
    peer.leave()
    await asyncio.sleep(1.1)
    tried = len(attempts)
    await asyncio.sleep(200)
    assert len(attempts) == tried


@plants(TaskName.EFFECT, at=(1,))
@in_fake_time
async def test_an_effect_that_fails_is_the_groups_and_not_the_clients(planting: Planting) -> None:
    bench = Bench()
    peer = await consuming(bench)
    for engine in bench.engines:
        engine.assign()
    bench.engine(EU).produce(0, first=0)
    positions = peer.positions()
    fetch = peer.fetch(positions)
    assert peer.answer(fetch).responses[0].partitions[0].records
    with planting.into_call() as reports, pytest.MonkeyPatch.context() as patched:
        patched.setattr(bench.server.engines, "command", planting.throw)
        peer.commit({0: positions[0] + 2})
        await asyncio.sleep(0.1)
    assert {task for task, _, _ in reports.failures} == {OwnedTask(TaskName.EFFECT, "vc", group="shop")}
    assert not peer.transport.closed
    fetch = peer.fetch(positions, max_wait=1_000)
    bench.engine(US).produce(2, first=0)
    await asyncio.sleep(0.2)
    assert not peer.transport.closed


class CannotSubscribe(FakeEngine):
    """The system starts no thread for it."""

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        raise RuntimeError("can't start new thread")


@in_fake_time
async def test_an_engine_that_does_not_take_a_command_is_replaced() -> None:
    bench, made = Bench(), list[FakeEngine]()
    make = bench.create

    def create(group: GroupId, cluster: ClusterName, deliver: Callable[[EngineEvent], None]) -> FakeEngine:
        if cluster == EU and not made:
            made.append(CannotSubscribe(group, cluster, deliver))
            made[0].leaving.set()
            return made[0]
        return make(group, cluster, deliver)

    bench.create = create
    peer = await consuming(bench)
    (described,) = bench.upstream_health.described()
    assert (described["cluster"], described["reason"]) == (EU, repr(RuntimeError("can't start new thread")))
    await asyncio.sleep(2)
    assert bench.engine(EU).commands[0] == ("subscribe", frozenset(["orders"]))
    assert not peer.transport.closed
    fetch = peer.fetch({0: peer.positions()[0]}, max_wait=5_000)
    bench.engine(EU).assign()
    bench.engine(EU).produce(0, first=0)
    assert peer.answer(fetch).responses[0].partitions[0].records


@in_fake_time
async def test_a_dead_letter_whose_writer_cannot_be_made_is_one_that_was_not_written() -> None:
    bench = Bench(PoolSettings(redelivery=Redelivery(limit=1)))
    peer = await bench.member("peer")
    await bench.member("other")
    peer.fetch(peer.positions(), max_wait=5_000)
    bench.engine(EU).assign()
    bench.engine(EU).produce(0, first=0, count=1)
    bench.server._write_dead_letter = Mock(side_effect=RuntimeError("can't start new thread"))
    peer.leave()
    await asyncio.sleep(0.1)
    assert bench.metric("kafka_mesh_dead_letter_failures_total") == {("shop",): 1}


@plants(TaskName.TOOL_QUERY)
@in_fake_time
async def test_a_tool_whose_request_fails_has_its_connection_closed(planting: Planting) -> None:
    async def ask(_: object) -> None:
        await asyncio.sleep(1_000)

    connection = Mock()
    tool_queries = ToolQueries(Mock(ask=ask), ShareGroups("vc", None), Mock())
    with planting.into_task():
        tool_queries.ask(PendingRequest(connection, Mock()), DeleteGroups(()))
        await asyncio.sleep(1)
    connection.client.abort.assert_called_once_with()
    assert not tool_queries._asking


class Slow(MemoryStore):
    async def put(self, *arguments: Any) -> Any:
        for _ in range(10):
            await asyncio.sleep(0)
        return await super().put(*arguments)


@plants(TaskName.SHARE_GROUP)
@in_fake_time
async def test_a_request_for_a_share_group_that_fails_has_its_connection_closed(planting: Planting) -> None:
    connection, store = Mock(), Slow()
    kept, group = ShareGroups("vc", store), GroupId("billing")
    answered: list[object] = []
    with planting.into_task() as reports:
        for _ in range(2):
            change = ChangeGroupConfigs(PendingRequest(connection, Mock()), {group: {"a": "b"}})
            kept.change(change, answered.append)
            await asyncio.sleep(1)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.SHARE_GROUP, "vc", group="billing")]
    connection.client.abort.assert_called_once_with()
    assert (len(answered), kept.overrides(group), kept._working) == (1, {"a": "b"}, set())


class Broken(MemoryStore):
    async def put(self, *_: object) -> None:
        raise KeyError("relay")


@in_fake_time
async def test_a_share_group_that_cannot_be_kept_is_told_and_a_request_for_it_ends() -> None:
    reports, connection = Reports(), Mock()
    kept, group = ShareGroups("vc", Broken()), GroupId("billing")
    with reporting(reports):
        kept.keep(group)
        kept.change(ChangeGroupConfigs(PendingRequest(connection, Mock()), {group: {"a": "b"}}), Mock())
        await asyncio.sleep(0.1)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.SHARE_GROUP, "vc", group="billing")] * 2
    connection.client.abort.assert_called_once_with()
    assert not kept._working


@plants(TaskName.STEP, at=(1,))
@in_fake_time
async def test_a_step_that_fails_after_its_effects_closes_no_client(planting: Planting) -> None:
    """The client whose bytes caused the step has no part in what other connections or the timer do."""
    bench = Bench()
    peer = await consuming(bench)
    core = bench.server.core
    with planting.into_call() as reports, pytest.MonkeyPatch.context() as patched:
        patched.setattr(core, "next_deadline", planting.throw)
        assert peer.answer(peer.heartbeat()).error_code == 0
    assert {task for task, _, _ in reports.failures} == {OwnedTask(TaskName.STEP, "vc")}
    assert not peer.transport.closed
    assert peer.answer(peer.heartbeat()).error_code == 0


@in_fake_time
async def test_a_connection_that_fails_in_its_turn_is_closed_and_others_have_theirs() -> None:
    bench, reports = Bench(), Reports()
    one, other = await consuming(bench), Peer(bench.server)
    with reporting(reports):
        one.protocol._requests.answer_early = Mock(side_effect=KeyError("relay"))  # type: ignore[method-assign]
        fetch = one.fetch(one.positions(), max_wait=60_000)
        one.protocol.handle_next()
        one.heartbeat()
        assert other.ask(ApiKey.API_VERSIONS, 0).api_keys
        await asyncio.sleep(0.1)
    assert {task for task, _, _ in reports.failures} == {OwnedTask(TaskName.CONNECTION, "vc")}
    assert (one.transport.closed, other.transport.closed) == (True, False)
    assert one.answer(fetch) is None


@in_fake_time
async def test_a_timer_that_fails_goes_on_after_a_rest() -> None:
    bench, reports = Bench(), Reports()
    peer = await consuming(bench)
    fetch = peer.fetch(peer.positions(), max_wait=500)
    tick = bench.server.core.tick
    bench.server.core.tick = Mock(side_effect=[KeyError("relay"), KeyError("relay")])  # type: ignore[method-assign]
    with reporting(reports):
        await asyncio.sleep(1.8)
        assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.STEP, "vc")] * 2
        bench.server.core.tick = tick  # type: ignore[method-assign]
        assert peer.answer(fetch) is None
        await asyncio.sleep(1)
    assert peer.answer(fetch) is not None


@plants(TaskName.ENGINE, at=(1,))
@in_fake_time
async def test_a_failure_while_an_engine_is_replaced_is_reported_and_the_next_attempt_follows(
    planting: Planting,
) -> None:
    bench = Bench()
    bench.create = Mock(side_effect=planting.throw)
    with planting.into_call() as reports:
        bench.server.engines._listener.happened = planting.throw  # type: ignore[method-assign]
        await consuming(bench)
        await asyncio.sleep(4)
    assert {task for task, _, _ in reports.failures} == {
        OwnedTask(TaskName.ENGINE, group="shop", cluster=cluster) for cluster in (EU, US)
    }
    assert bench.create.call_count == 2 * 3, "after 0, 1 and 3 seconds"
