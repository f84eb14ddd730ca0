"""Engines come and go with the pools of their group, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from structlog.testing import capture_logs

from mesh.admin.status import status_of
from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.tasks import OwnedTask, TaskName, begin
from mesh.telemetry.upstream_health import SETTLED
from mesh.upstream.engine import (
    EngineEvent,
    EngineFailed,
    GroupDown,
    GroupUp,
    ReadingDown,
    ReadingUp,
    SourceDown,
    SourceUp,
    Unopenable,
    Unopened,
)
from mesh.upstream.problems import UpstreamProblem
from mesh.wire.errors import ErrorCode
from tests.fake_time import in_fake_time
from tests.planted import Planting, plants
from tests.pool.harness import EU, US, source
from tests.runtime.pool.harness import Bench, FakeEngine, Peer


async def consuming(bench: Bench, client_id: str = "c") -> Peer:
    """A member whose pool has engines on both clusters."""
    peer = await bench.member(client_id)
    peer.fetch(peer.positions(), max_wait=100)
    await asyncio.sleep(0.2)
    return peer


async def left(peer: Peer) -> None:
    peer.leave()
    await asyncio.sleep(1.1)


@in_fake_time
async def test_one_for_each_cluster_and_none_before_somebody_fetches() -> None:
    bench = Bench()
    peer = await bench.member()
    assert bench.engines == []
    peer.fetch(peer.positions())
    assert [(engine.cluster, engine.commands[0]) for engine in bench.engines] == [
        (EU, ("subscribe", frozenset(["orders"]))),
        (US, ("subscribe", frozenset(["orders"]))),
    ]


@in_fake_time
async def test_leaving_commits_what_is_not_stored_yet_on_its_own_cluster() -> None:
    bench = Bench(store_at_once=False)
    peer = await consuming(bench)
    positions = peer.positions()
    fetch = peer.fetch(positions)
    for engine in bench.engines:
        engine.assign()
    bench.engine(EU).produce(0, first=0, count=3)
    assert peer.answer(fetch) is not None
    peer.commit({0: positions[0] + 2})
    await asyncio.sleep(3.5)  # answered as not stored
    await left(peer)
    assert bench.engine(EU).last == {source(0): CommitPosition(2)}
    assert bench.engine(US).last == {}
    assert len(bench.server.engines) == 0


@in_fake_time
async def test_a_pool_that_comes_again_waits_until_the_older_engine_has_left() -> None:
    bench = Bench(leave_at_once=False)
    await left(await consuming(bench))
    older = bench.engine(EU), bench.engine(US)
    peer = await consuming(bench)
    assert len(bench.engines) == 2, "none of the new pool's yet"
    older[0].leaving.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    assert [engine.cluster for engine in bench.engines] == [EU, US, EU]
    assert bench.engine(EU).commands == [("subscribe", frozenset(["orders"]))], "what it was told meanwhile"
    older[1].leaving.set()
    await asyncio.sleep(0.1)
    fetch = peer.fetch(peer.positions(), max_wait=5_000)
    bench.engine(US).assign()
    bench.engine(US).produce(2, first=0)
    assert peer.answer(fetch).responses[0].partitions[2].records


@in_fake_time
async def test_a_pool_that_ends_while_it_still_waits_opens_nothing() -> None:
    bench = Bench(leave_at_once=False)
    await left(await consuming(bench))
    await left(await consuming(bench))
    assert len(bench.engines) == 2
    for engine in bench.engines:
        engine.leaving.set()
    await bench.server.engines.closed()
    await asyncio.sleep(0.1)
    assert len(bench.engines) == 2
    assert len(bench.server.engines) == 0


@plants(TaskName.ENGINE_CLOSE)
@in_fake_time
async def test_an_engine_that_fails_to_close_is_reported_and_holds_up_nobody(planting: Planting) -> None:
    bench = Bench(leave_at_once=False)
    with planting.into_task() as reports:
        await left(await consuming(bench))
        older = bench.engine(EU)
        await consuming(bench)
        older.leaving.set()
        await asyncio.sleep(1)
    ((task, _, _),) = reports.failures
    assert task == OwnedTask(TaskName.ENGINE_CLOSE, group="shop", cluster=EU)
    assert bench.engine(EU) is not older


@in_fake_time
async def test_what_an_older_engine_still_tells_is_nobodys() -> None:
    bench = Bench(leave_at_once=False)
    await left(await consuming(bench))
    older = bench.engine(EU)
    await consuming(bench)
    older.assign()
    older.produce(0, first=0)
    assert sum(bench.metric("kafka_mesh_backlog_records").values()) == 0


@in_fake_time
async def test_a_cluster_that_goes_down_and_up() -> None:
    bench = Bench()
    await consuming(bench)
    bench.engine(EU).deliver(SourceDown("all brokers down"))
    bench.engine(US).deliver(SourceUp())
    assert bench.metric("kafka_mesh_upstream_up") == {("eu",): 0, ("us",): 1}


@in_fake_time
async def test_a_group_that_refuses_us_leaves_the_cluster_up() -> None:
    bench = Bench()
    await consuming(bench)
    us = bench.engine(US)
    us.deliver(SourceUp())
    for problem in (UpstreamProblem.NOT_AUTHORIZED, UpstreamProblem.FENCED, UpstreamProblem.ASSIGNOR):
        us.deliver(GroupDown("no", problem))
        us.deliver(SourceUp())
        assert set(bench.metric("kafka_mesh_upstream_problem_seconds")) == {("us", problem.value)}
        assert bench.metric("kafka_mesh_upstream_up")["us",] == 1
        us.deliver(GroupUp())
        assert bench.upstream_health.described() == []


@in_fake_time
async def test_partitions_that_cannot_be_read_are_told_and_keep_no_commit_from_being_stored() -> None:
    bench = Bench()
    await consuming(bench)
    us = bench.engine(US)

    def standing() -> set[tuple[str, ...]]:
        return set(bench.metric("kafka_mesh_upstream_problem_seconds"))

    us.deliver(ReadingDown("us/orders-1: no answer within 10 s"))
    assert standing() == {("us", "unreadable")}
    # The group's own side reports something else.
    us.deliver(SourceUp())
    assert standing() == {("us", "unreadable")}
    us.deliver(ReadingDown("us/orders-1: TOPIC_AUTHORIZATION_FAILED", UpstreamProblem.NOT_AUTHORIZED))
    assert standing() == {("us", "not_authorized")}
    assert bench.metric("kafka_mesh_upstream_up")[("us",)] == 1
    (pool,) = bench.server.core.pools.values()
    assert not pool.commits.is_down(US)
    us.deliver(ReadingUp())
    assert standing() == set()


@in_fake_time
async def test_a_bug_in_an_engine_is_seen_and_nothing_behind_it_is_forgotten() -> None:
    """The pool subscribes at both clusters; the first engine fails."""
    bench = Bench()
    peer = await bench.member()
    positions = peer.positions()
    create = bench.create

    def broken(group: GroupId, cluster: ClusterName, deliver: Callable[[EngineEvent], None]) -> FakeEngine:
        if cluster == EU:
            raise RuntimeError("no more threads")
        return create(group, cluster, deliver)

    bench.create = broken
    peer.fetch(positions, max_wait=100)
    await asyncio.sleep(0.5)
    (described,) = bench.upstream_health.described()
    assert (described["cluster"], described["reason"]) == (EU, "RuntimeError('no more threads')")
    assert [engine.cluster for engine in bench.engines] == [US]
    peer.read()
    assert peer.order[-1] == peer.last, "the Fetch was answered all the same"


# Engines that fail


async def failing(bench: Bench) -> Peer:
    """A member that has 3 records of a cluster whose engine then fails while a commit of 2 is in flight."""
    peer = await consuming(bench)
    positions = peer.positions()
    for engine in bench.engines:
        engine.assign()
    fetch = peer.fetch(positions)
    bench.engine(EU).produce(0, first=0, count=3)
    assert peer.answer(fetch) is not None
    commit = peer.commit({0: positions[0] + 2})
    bench.engine(EU).deliver(EngineFailed("ZeroDivisionError()", "Traceback ..."))
    (topic,) = peer.answer(commit).topics
    assert topic.partitions[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS, "as if the partition was revoked"
    return peer


@in_fake_time
async def test_an_engine_that_failed_is_created_again_and_told_what_the_older_one_was_told() -> None:
    bench = Bench(store_at_once=False)
    with capture_logs() as logs:
        peer = await failing(bench)
    (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert entry["event"] == "engine failed: bug in kafka-mesh"
    assert (entry["cluster"], entry["group"], entry["traceback"]) == (EU, "shop", "Traceback ...")
    older, other = bench.engine(EU), bench.engine(US)
    await asyncio.sleep(0.5)
    assert older.last == {}
    assert bench.engine(EU) is older, "it rests for a second"
    await asyncio.sleep(1)
    newer = bench.engine(EU)
    assert newer is not older
    assert bench.engine(US) is other
    assert newer.commands[0] == ("subscribe", frozenset(["orders"]))
    assert bench.metric("kafka_mesh_engine_failures_total") == {("eu",): 1, ("us",): 0}
    with capture_logs() as logs:
        newer.assign()
        await asyncio.sleep(SETTLED)
        bench.upstream_health.remind()
    assert "engine works again" in [entry["event"] for entry in logs]
    await peer.join()
    fetch = peer.fetch(peer.positions(), max_wait=5_000)
    newer.produce(0, first=0, count=3)
    assert peer.answer(fetch).responses[0].partitions[0].records, "what was not stored comes again"


@in_fake_time
async def test_an_engine_that_fails_again_and_again_rests_longer_each_time() -> None:
    bench = Bench()
    peer = await consuming(bench)

    async def pass_by(seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            await asyncio.sleep(0.5)
            assert peer.answer(peer.heartbeat()).error_code == 0

    for rest in (1, 2, 4, 8, 16, 32, 60, 60):
        count = len(bench.engines)
        bench.engine(EU).deliver(EngineFailed("again", ""))
        await pass_by(rest - 0.5)
        assert len(bench.engines) == count
        await pass_by(1)
        assert len(bench.engines) == count + 1
    await pass_by(120)
    count = len(bench.engines)
    bench.engine(EU).deliver(EngineFailed("after long", ""))
    await pass_by(1.5)
    assert len(bench.engines) == count + 1


@in_fake_time
async def test_what_an_engine_tells_after_it_failed_is_nobodys() -> None:
    bench = Bench(store_at_once=False)
    await failing(bench)
    older = bench.engine(EU)
    older.assign()
    older.produce(0, first=0)
    older.deliver(EngineFailed("once more", ""))
    assert sum(bench.metric("kafka_mesh_backlog_records").values()) == 0
    assert bench.metric("kafka_mesh_engine_failures_total") == {("eu",): 1, ("us",): 0}


@in_fake_time
async def test_nothing_is_made_for_a_pool_that_left_while_its_engine_rested() -> None:
    bench = Bench(store_at_once=False)
    await left(await failing(bench))
    count = len(bench.engines)
    await asyncio.sleep(120)
    assert len(bench.engines) == count
    assert len(bench.server.engines) == 0
    assert bench.upstream_health.described() == []


# Assigned partitions that cannot be opened


def unopened(*indexes: int, problem: UpstreamProblem = UpstreamProblem.UNREADABLE, lasts: bool = True) -> Unopened:
    return Unopened({source(index): Unopenable("no leader", problem, lasts) for index in indexes})


@in_fake_time
async def test_what_cannot_be_opened_is_named_when_that_lasts_and_once_for_each_change() -> None:
    bench = Bench()
    await consuming(bench)
    engine = bench.engine(EU)

    def standings() -> list[str]:
        (pool,) = status_of([bench.server])["virtual_clusters"][0]["pools"]
        return [each["standing"] for each in pool["partitions"] if each["cluster"] == EU]

    with capture_logs() as logs:
        engine.deliver(unopened(0, 1, lasts=False))
        engine.assign([])
        assert bench.metric("kafka_mesh_unopened_partitions") == {("eu", "shop"): 2, ("us", "shop"): 0}
        assert standings() == ["unopened", "unopened"]
        assert bench.upstream_health.described() == []
        for told in (unopened(0, 1), unopened(0, 1), unopened(1)):
            engine.deliver(told)
        (described,) = bench.upstream_health.described()
        assert (described["problem"], described["reason"]) == ("unreadable", "eu/orders-1: no leader")
        engine.assign([0])
        assert bench.metric("kafka_mesh_unopened_partitions")["eu", "shop"] == 1
        assert standings() == ["active", "unopened"]
        engine.deliver(unopened())
        engine.assign([0, 1])
        assert bench.metric("kafka_mesh_unopened_partitions")["eu", "shop"] == 0
        assert bench.upstream_health.described() == []
        await asyncio.sleep(SETTLED)
        bench.upstream_health.remind()
    told_of = [each.get("reason", each["event"]) for each in logs if each.get("problem")]
    assert told_of == [
        "eu/orders-0: no leader; eu/orders-1: no leader",
        "eu/orders-1: no leader",
        "upstream partitions readable again",
    ]


@in_fake_time
async def test_what_may_not_be_opened_is_another_problem_than_what_has_no_leader() -> None:
    bench = Bench()
    await consuming(bench)
    engine = bench.engine(EU)
    engine.deliver(unopened(0, problem=UpstreamProblem.NOT_AUTHORIZED))
    assert [each["problem"] for each in bench.upstream_health.described()] == ["not_authorized"]
    engine.deliver(unopened(0))
    assert [each["problem"] for each in bench.upstream_health.described()] == ["unreadable"]
    engine.deliver(EngineFailed("bug", ""))
    assert [each["problem"] for each in bench.upstream_health.described()] == ["engine_failed"]
    assert bench.metric("kafka_mesh_unopened_partitions")["eu", "shop"] == 0


@in_fake_time
async def test_the_first_of_many_that_cannot_be_opened_stand_for_all() -> None:
    bench = Bench()
    await consuming(bench)
    many = [UpstreamPartition(EU, TopicName("orders"), number) for number in range(1_000)]
    why = Unopenable("no leader", UpstreamProblem.UNREADABLE, lasts=True)
    bench.engine(EU).deliver(Unopened(dict.fromkeys(many, why)))
    (described,) = bench.upstream_health.described()
    assert str(described["reason"]).endswith("eu/orders-4: no leader; and 995 partitions more")


# Upstream commits that fail


@in_fake_time
async def test_upstream_commits_that_fail_are_told_once_and_the_member_is_told_to_retry() -> None:
    bench = Bench(store_at_once=False)
    peer = await consuming(bench)
    positions = peer.positions()
    for engine in bench.engines:
        engine.assign()
    fetch = peer.fetch(positions)
    bench.engine(EU).produce(0, first=0, count=3)
    assert peer.answer(fetch) is not None
    commit = peer.commit({0: positions[0] + 3})
    assert bench.metric("kafka_mesh_waiting_commits") == {("shop",): 1}
    with capture_logs() as logs:
        for _ in range(20):
            bench.engine(EU).store(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            await asyncio.sleep(0.25)
        (topic,) = peer.answer(commit).topics
        assert topic.partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        (problem,) = bench.upstream_health.described()
        assert (problem["problem"], problem["reason"]) == ("commits", "GROUP_AUTHORIZATION_FAILED for eu/orders-0")
        bench.engine(EU).store()
        assert bench.upstream_health.described() == []
        await asyncio.sleep(SETTLED)
        bench.upstream_health.remind()
    events = [entry["event"] for entry in logs if entry.get("problem")]
    assert events == ["upstream commits failing", "upstream commits stored again"]
    assert bench.upstream_health.described() == []
    assert bench.metric("kafka_mesh_upstream_commits_total") == {("eu", "failed"): 20, ("eu", "stored"): 1}
    assert peer.answer(peer.commit({0: positions[0] + 3})).topics[0].partitions[0].error_code == 0


@in_fake_time
async def test_an_engine_that_fails_while_its_cluster_is_left_is_not_created_again() -> None:
    """No member holds its records any more by then, so the pool leaves the cluster in the same step."""
    bench = Bench(store_at_once=False)
    peer = await consuming(bench)
    bench.engine(EU).assign()
    fetch = peer.fetch(peer.positions())
    bench.engine(EU).produce(0, 0, 1)
    assert peer.answer(fetch) is not None
    bench.server.step(lambda core, now: core.leave_cluster(EU, 30.0, now))
    made = len(bench.engines)
    bench.engine(EU).deliver(EngineFailed("bug", ""))
    await asyncio.sleep(2)
    assert len(bench.engines) == made
    assert not bench.server.engines.is_closing(GroupId("shop"))


@in_fake_time
async def test_engines_of_a_cluster_get_another_login() -> None:
    """So do the requests of tools. No group leaves the cluster."""
    bench = Bench()
    await consuming(bench)
    bench.server.change_login(EU, "mesh", "changed")
    assert bench.engine(EU).commands[-1] == ("change_login", ("mesh", "changed"))
    assert ("change_login", ("mesh", "changed")) not in bench.engine(US).commands
    assert bench.administration.logins == [(EU, "mesh", "changed")]
    assert bench.engine(EU).last is None


@in_fake_time
async def test_a_group_gets_another_engine_of_one_cluster() -> None:
    """A static member stays in the group: its engine closes without leaving."""
    bench = Bench(leave_at_once=False)
    for group in ("shop", "bakery"):
        peer = await bench.member(group=group)
        peer.fetch(peer.positions(group), max_wait=100)
        await asyncio.sleep(0.2)
    first, _, second, _ = bench.engines
    renewing = begin(OwnedTask(TaskName.GROUP_RENEWAL), partial(bench.server.renew, GroupId("shop"), EU, 6.0))
    await asyncio.sleep(1.0)
    assert [engine.last is not None for engine in (first, second)] == [True, False]
    assert not first.leaves and not renewing.done()
    first.leaving.set()
    await asyncio.sleep(1.0)
    assert [(engine.group, engine.cluster) for engine in bench.engines[4:]] == [("shop", EU)]
    assert bench.engines[4].commands[0] == ("subscribe", frozenset(["orders"]))
    assert second.last is None and renewing.done()
