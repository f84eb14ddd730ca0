"""The server of a virtual cluster: the effects that it carries out and their order, how it stops, and its metrics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from structlog.testing import capture_logs

from mesh.listener.requests import Requests
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.flow import OVERDUE
from mesh.records.spans import CommitPosition, Gap
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.labels import OTHER
from mesh.upstream.engine import EndReached, Revoked
from mesh.wire.apis import ApiKey
from mesh.wire.encoder import encode_response
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer, ResponseMessage
from tests.fake_time import in_fake_time
from tests.pool.apis.harness import join_values
from tests.pool.harness import EU, US, source
from tests.runtime.pool.harness import Bench, Peer, requests_in_work


def parked(bench: Bench) -> float:
    return sum(bench.metric("kafka_mesh_parked_fetches").values())


@in_fake_time
async def test_timers_come_due_and_a_nearer_one_is_not_forgotten() -> None:
    bench = Bench()
    peer, other = await bench.member("peer"), await bench.member("other")
    late, soon = peer.fetch(peer.positions(), max_wait=900), other.fetch(other.positions(), max_wait=100)
    await asyncio.sleep(0.2)
    assert other.answer(soon) is not None
    assert peer.answer(late) is None
    await asyncio.sleep(0.8)
    assert peer.answer(late) is not None


@in_fake_time
async def test_a_request_is_taken_up_when_all_that_was_decided_before_is_done() -> None:
    """One step answers two JoinGroups; the request that waits behind the first comes after both."""
    with pytest.MonkeyPatch.context() as patch:
        happened: list[str] = []
        do, handle = PoolRuntime._do, Requests.handle
        patch.setattr(PoolRuntime, "_do", _noted(do, "done", happened))
        patch.setattr(Requests, "handle", _noted(handle, "taken up", happened))
        bench = Bench()
        first, second = bench.peer(), bench.peer()
        for peer in (first, second):
            peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
        behind = first.send(ApiKey.METADATA, 1, topics=())
        happened.clear()
        await asyncio.sleep(0.3)
    assert happened[:3] == ["done", "done", "taken up"]
    assert first.answer(behind) is not None


def _noted(method: Callable[..., None], name: str, happened: list[str]) -> Callable[..., None]:
    def noted(*arguments: object) -> None:
        happened.append(name)
        method(*arguments)

    return noted


@in_fake_time
async def test_a_topic_that_is_missed_is_looked_for() -> None:
    bench = Bench()
    bench.server.topics_changed(EU, {})
    bench.server.topics_changed(US, {})
    peer = bench.peer()
    peer.ask(ApiKey.METADATA, 1, topics=({"name": "orders"}, {"name": "unheard-of"}))
    assert bench.refreshed == 1


@in_fake_time
async def test_a_pool_that_fails_while_it_subscribes_is_closed_and_nothing_else() -> None:
    bench = Bench()
    peer, other = await bench.member(), await bench.member(group="another")
    positions = peer.positions()
    with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
        patch.setattr("mesh.pool.fetch.serving.Serving.fetch", lambda *_: 1 // 0)
        peer.fetch(positions)
    assert [entry["event"] for entry in logs] == ["pool closed: invariant violated"]
    assert bench.metric("kafka_mesh_pool_violations_total") == {(): 1}
    assert len(bench.server.engines) == 0
    assert other.answer(other.heartbeat("another")).error_code == 0


# Stop


@in_fake_time
async def test_drain_answers_what_waits_commits_and_leaves() -> None:
    bench = Bench(store_at_once=False, leave_at_once=False)
    peer, committer, joiner = await bench.member("peer"), await bench.member("committer"), bench.peer("joiner")
    positions = committer.positions()
    collected = committer.fetch(positions)
    for engine in bench.engines:
        engine.assign()
    bench.engine(EU).produce(0, first=0, count=4)
    assert committer.answer(collected) is not None
    commit = committer.commit({0: positions[0] + 3})
    fetch = peer.fetch(peer.positions(), max_wait=5_000)
    join = joiner.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    bench.server.drain()
    bench.server.close_connections()
    assert peer.answer(fetch) is not None
    (topic,) = committer.answer(commit).topics
    assert topic.partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert joiner.answer(join).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert all(each.transport.closed for each in (peer, committer, joiner))
    await asyncio.sleep(0)
    assert bench.engine(EU).last == {source(0): CommitPosition(3)}
    for engine in bench.engines:
        engine.leaving.set()
    await bench.server.engines.closed()
    assert len(bench.server.engines) == 0
    assert len(bench.server.listener.connections) == 0
    assert requests_in_work(bench.server) == 0


@in_fake_time
async def test_nothing_is_opened_again_by_what_waits_behind_an_answer_of_the_drain() -> None:
    bench = Bench()
    peer = bench.peer()
    joins = [peer.bytes_of(ApiKey.JOIN_GROUP, 3, **join_values(member_id="", group_id=name)) for name in ("a", "b")]
    peer.protocol.data_received(b"".join(joins))
    bench.server.drain()
    late = bench.peer()
    late.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=""))
    bench.server.close_connections()
    await asyncio.sleep(1)
    peer.read()
    assert peer.order == [1]
    assert not late.transport.written
    assert bench.metric("kafka_mesh_pools") == {(): 0}
    assert len(bench.server.listener.connections) == 0


@in_fake_time
async def test_nothing_is_kept_of_connections_that_are_gone() -> None:
    bench = Bench(store_at_once=False)
    for number in range(30):
        peer = await bench.member(f"client-{number}")
        match number % 3:
            case 0:
                peer.fetch(peer.positions(), max_wait=5_000)
            case 1:
                peer.send(ApiKey.JOIN_GROUP, 3, **join_values(member_id=peer.member_id))
            case _:
                peer.heartbeat()
        peer.die()
    assert requests_in_work(bench.server) == 0
    assert len(bench.server.listener.connections) == 0
    await asyncio.sleep(60)
    assert bench.metric("kafka_mesh_pools") == {(): 0}
    assert len(bench.server.core.slots) == 0
    assert len(bench.server.core.connections) == 0


# Metrics


@in_fake_time
async def test_what_alerts_watch_is_there_before_it_rises() -> None:
    """For Prometheus, a series that appears with its first event has not risen."""
    rules = (Path(__file__).parents[3] / "config/prometheus/alerts.yaml").read_text()
    watched = set(re.findall(r"increase\((\w+)", rules)) - {"kafka_mesh_journal_events_total"}
    watched.remove("kafka_mesh_worker_restarts_total")  # the supervisor counts it for each worker from the start
    watched.remove("kafka_mesh_task_failures_total")  # TaskHealth counts it for each task from the start
    assert "kafka_mesh_dead_letters_total" in watched
    bench = Bench()
    peer = await bench.member("peer")
    peer.fetch(peer.positions(), max_wait=900)
    for name in watched:
        assert set(bench.metric(name).values()) == {0.0}, name


@in_fake_time
async def test_what_is_deleted_before_anybody_has_it_is_logged_and_counted() -> None:
    bench = Bench()
    peer = await bench.member("peer")
    peer.fetch(peer.positions(), max_wait=900)
    bench.engine(EU).assign()
    with capture_logs() as logs:
        bench.engine(EU).deliver(EndReached(source(0), 7, Gap.DELETED))
        bench.engine(EU).deliver(EndReached(source(0), 9, Gap.EMPTY))
    assert bench.metric("kafka_mesh_gone_offsets_total") == {("shop",): 7}
    (told,) = [each for each in logs if each["log_level"] == "warning"]
    assert told["event"] == "unread offsets skipped: gone upstream"
    assert (told["partition"], told["span"], told["offsets"]) == ("eu/orders-0", "0..6", 7)


@in_fake_time
async def test_a_small_life_in_metrics() -> None:
    bench = Bench(PoolSettings(initial_window=10), store_at_once=False)
    peer, other = await bench.member("peer"), await bench.member("other")
    positions = peer.positions()
    fetch = peer.fetch(positions, max_wait=5_000)
    assert (parked(bench), bench.metric("kafka_mesh_waiting_fetches")) == (1, {("shop",): 0})
    for engine in bench.engines:
        engine.assign()
    assert bench.metric("kafka_mesh_waiting_fetches") == {("shop",): 1}
    bench.engine(EU).produce(0, first=0, count=10)
    size = len(peer.answer(fetch).responses[0].partitions[0].records)
    assert bench.metric("kafka_mesh_records_in_total") == {("eu", "orders"): 10}
    assert bench.metric("kafka_mesh_records_out_total") == {("shop", "orders"): 10}
    assert bench.metric("kafka_mesh_bytes_out_total") == {("shop", "orders"): size}
    in_flight = {labels[0]: value for labels, value in bench.metric("kafka_mesh_in_flight_records").items()}
    assert in_flight == {"peer": 10, "other": 0}
    assert [labels[0] for labels in bench.metric("kafka_mesh_commit_held_seconds")] == ["peer"]
    assert bench.metric("kafka_mesh_upstream_lag_records")[("eu", "shop", "0", "orders")] == 10

    commit = peer.commit({0: positions[0] + 10})
    bench.engine(EU).store()
    assert peer.answer(commit) is not None
    assert bench.metric("kafka_mesh_commit_held_seconds") == {}
    refused = peer.commit({0: positions[0] + 11})
    assert peer.answer(refused) is not None
    assert bench.metric("kafka_mesh_commits_total") == {("shop", "NONE"): 1, ("shop", "OFFSET_OUT_OF_RANGE"): 1}
    assert bench.metric("kafka_mesh_upstream_lag_records")[("eu", "shop", "0", "orders")] == 0

    fetch = peer.fetch({**positions, 0: positions[0] + 10}, max_wait=5_000)
    bench.engine(EU).produce(0, first=10, count=5)
    assert peer.answer(fetch) is not None
    peer.leave()
    fetch = other.fetch(other.positions())
    assert other.answer(fetch).responses[0].partitions[0].records
    assert bench.metric("kafka_mesh_redelivered_records_total") == {("shop",): 5}

    heartbeat = peer.heartbeat()
    assert peer.answer(heartbeat) is not None
    requests = {(api, error): n for (api, error), n in bench.metric("kafka_mesh_requests_total").items()}
    assert requests[("HEARTBEAT", "UNKNOWN_MEMBER_ID")] == 1
    assert requests[("OFFSET_COMMIT", "OFFSET_OUT_OF_RANGE")] == 1
    assert requests[("FETCH", "NONE")] == 3
    assert requests[("JOIN_GROUP", "NONE")] == 2
    assert bench.metric("kafka_mesh_connections") == {(): 2}
    assert bench.metric("kafka_mesh_members") == {("shop",): 1}


@in_fake_time
async def test_members_that_never_commit_are_counted_until_they_do() -> None:
    bench = Bench()
    peer, _ = await bench.member("peer"), await bench.member("other")
    positions = peer.positions()
    fetch = peer.fetch(positions, max_wait=5_000)
    for engine in bench.engines:
        engine.assign()
    bench.engine(EU).produce(0, first=0, count=10)
    assert peer.answer(fetch) is not None
    now = bench.server.now()
    told = [member.flow.take_overdue(now + OVERDUE) for member in bench.server.core.pools[GroupId("shop")].members]
    assert told == [True, False]
    assert bench.metric("kafka_mesh_members_never_committed") == {("shop",): 1}
    peer.commit({0: positions[0] + 1})
    assert bench.metric("kafka_mesh_members_never_committed") == {("shop",): 0}


@in_fake_time
async def test_a_dead_letter_is_settled_when_it_was_written() -> None:
    bench = Bench(PoolSettings(redelivery=Redelivery(limit=1)))
    peer = await bench.member("peer")
    other = await bench.member("other")
    fetch = peer.fetch(peer.positions(), max_wait=5_000)
    bench.engine(EU).assign()
    bench.engine(EU).produce(0, first=0, count=1)
    assert peer.answer(fetch).responses[0].partitions[0].records
    peer.leave()
    await asyncio.sleep(0)  # stores the delivery in vain
    ((effect, ended),) = bench.dead_letters
    assert (effect.partition, effect.batch.first) == (source(0), 0)
    ended("no such topic")
    assert bench.metric("kafka_mesh_dead_letter_failures_total") == {("shop",): 1}
    assert not bench.engine(EU).commits
    ended("")
    assert bench.metric("kafka_mesh_dead_letters_total") == {("shop",): 1}
    assert [position.offset for _, positions in bench.engine(EU).commits for position in positions.values()] == [1]
    assert other.answer(other.fetch(other.positions(), max_wait=0)) is not None
    ended("")  # for example of a pool that has ended by then
    await asyncio.sleep(0)


@in_fake_time
async def test_errors_of_parts_are_counted_too() -> None:
    bench = Bench(rules=GroupRules(admitted=("shop",)))
    peer = bench.peer()
    peer.ask(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=("shop", "other"))
    peer.ask(ApiKey.LEAVE_GROUP, 3, group_id="shop", members=({"member_id": "m"},))
    data = ({"name": "orders", "partition_data": ({"index": 0, "records": b""},)},)
    peer.ask(ApiKey.PRODUCE, 3, acks=1, timeout=0, topic_data=data)
    peer.ask(ApiKey.METADATA, 1, topics=({"name": "x"},))
    assert bench.metric("kafka_mesh_requests_total") == {
        ("FIND_COORDINATOR", "GROUP_AUTHORIZATION_FAILED"): 1,
        ("LEAVE_GROUP", "UNKNOWN_MEMBER_ID"): 1,
        ("PRODUCE", "POLICY_VIOLATION"): 1,
        ("METADATA", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
    }


@in_fake_time
async def test_a_thousand_groups_are_bounded_in_the_metrics() -> None:
    bench = Bench(rules=GroupRules(maximum=1_000))
    peers: list[Peer] = []
    for number in range(1_000):
        peers.append(bench.peer(f"client-{number}"))
        peers[-1].send(ApiKey.JOIN_GROUP, 3, **join_values(member_id="", group_id=f"group-{number}"))
    await asyncio.sleep(0.3)
    for number, peer in enumerate(peers):
        peer.commit({0: 1}, group=f"group-{number}")
    members = bench.metric("kafka_mesh_members")
    assert len(members) == 101
    assert (sum(members.values()), members[(OTHER,)]) == (1_000, 900)
    assert len(bench.metric("kafka_mesh_commits_total")) == 101
    assert len(b"".join(bench.metrics.exposition())) < 500_000


def test_a_deadline_that_has_passed_under_uvloop() -> None:
    """uvloop's `call_at` gives another kind of handle then."""

    async def run() -> None:
        bench = Bench(rules=GroupRules(maximum=0))
        peer = bench.peer()
        nothing = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1, "topics": ()}
        first, second = (peer.bytes_of(ApiKey.FETCH, 11, **nothing) for _ in range(2))
        peer.protocol.data_received(first)
        bench.peer().ask(ApiKey.API_VERSIONS, 0)
        peer.protocol.data_received(second)
        while len(peer.order) < 2:
            await asyncio.sleep(0)
            peer.read()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(run(), 30))


def test_a_timer_of_uvloop_that_is_early_by_part_of_a_millisecond_is_not_asked_again() -> None:
    """Its clock and its timers count milliseconds; a timer that is due in between would be asked for until that has
    passed."""

    async def run() -> tuple[int, int]:
        bench = Bench()
        peer = bench.peer()
        ticks = 0
        tick = bench.server.core.tick

        def counted(now: float) -> object:
            nonlocal ticks
            ticks += 1
            return tick(now)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bench.server.core, "tick", counted)
            for _ in range(40):
                correlation = peer.fetch(dict.fromkeys(range(4), 0), max_wait=7)
                await asyncio.sleep(0.02)
                assert peer.answer(correlation) is not None
        return ticks, bench.server.core.violations

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ticks, violations = runner.run(asyncio.wait_for(run(), 60))
    assert ticks <= 45, "one for each Fetch, and a few of the pool's own"
    assert violations == 0


@in_fake_time
async def test_an_answer_without_records_is_made_once_and_every_change_is_seen() -> None:
    bench = Bench()
    peer = await bench.member()
    positions = peer.positions()
    peer.answer(peer.fetch(positions, max_wait=0))
    for engine in bench.engines:
        engine.assign()

    async def watermarks() -> list[int]:
        correlation = peer.fetch(positions)
        await asyncio.sleep(0.6)
        answer = peer.answer(correlation)
        return [each.high_watermark for each in answer.responses[0].partitions]

    encoded: list[ApiKey] = []

    def noted(api_key: ApiKey, version: int, response: ResponseMessage) -> list[Buffer]:
        encoded.append(api_key)
        return encode_response(api_key, version, response)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mesh.wire.connection.encode_response", noted)
        nothing = await watermarks()
        assert [await watermarks() for _ in range(3)] == [nothing] * 3
        assert encoded == [ApiKey.FETCH]
        bench.engine().deliver(Revoked((source(0),)))
        assert await watermarks() == [nothing[0] + 1, *nothing[1:]]
        assert encoded == [ApiKey.FETCH] * 2
        positions[1] = positions[0] + 5  # another member's, or without a member
        changed = await watermarks()
        assert changed[1] != nothing[1]
        assert encoded == [ApiKey.FETCH] * 3
