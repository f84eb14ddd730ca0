"""The raw engine as a member of a group: librdkafka joins and commits, and no record comes through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from mesh.records.spans import CommitPosition, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    EndReached,
    HighWatermarks,
    PositionReset,
    Received,
    Revoked,
    TopicsIdentified,
    Truncated,
)
from mesh.upstream.raw.engine import RawEngine
from mesh.upstream.raw.reading import Reading
from tests.mock_cluster import EmbeddedCluster
from tests.upstream.harness import RunningEngine, engine, new_name, produce, run, source


def test_records_commits_and_going_on(mock_cluster: str) -> None:
    topic, group = new_name("topic"), new_name("group")
    produce(mock_cluster, topic, 50)
    # The mock cluster waits for the session of a member that has left.
    settings: dict[str, Any] = {"reads_with": "raw", "session_timeout_ms": 3_000}

    async def test() -> None:
        async with engine(mock_cluster, group, topic, **settings) as running:
            await running.ends(4)
            assert [record.offset for record in running.records(topic)] == list(range(50))
            # librdkafka's decoded records come in bytes of their own.
            assert all(isinstance(batch.data, memoryview) for event in running.all(Received) for batch in event.batches)
            assert await running.commit({source(topic): CommitPosition(20)}) == {source(topic): 0}
        async with engine(mock_cluster, group, topic, **settings) as running:
            assert (await running.assigned())[0].start == 20
            await running.ends(4)
            assert next(batch.first for event in running.all(Received) for batch in event.batches) == 20
            assert [event.offset for event in running.all(EndReached) if event.partition == source(topic)] == [50]

    run(test)


def test_leaders_on_several_brokers() -> None:
    cluster = EmbeddedCluster(brokers=3)
    bootstrap = cluster.bootstrap_servers
    topics = [new_name("topic") for _ in range(10)]  # their leaders are random
    for topic in topics:
        produce(bootstrap, topic, 20, **{"enable.idempotence": False})  # it would ask for an id each time

    async def test() -> None:
        async with engine(bootstrap, new_name("group"), *topics, reads_with="raw") as running:
            await running.ends(40)
            for topic in topics:
                assert [record.offset for record in running.records(topic)] == list(range(20))
            assert isinstance(running.engine, RawEngine)
            assert len({reading.leader for reading in running.engine._readings.values()}) > 1

    run(test)
    del cluster


@pytest.mark.long
def test_a_rebalance_goes_on_where_it_was_read_to(mock_cluster: str) -> None:
    topic, group = new_name("topic"), new_name("group")
    produce(mock_cluster, topic, 50)

    async def test() -> None:
        async with engine(mock_cluster, group, topic, reads_with="raw") as running:
            await running.ends(4)
            await running.commit({source(topic): CommitPosition(20)})
            running.events.clear()
            async with engine(mock_cluster, group, topic, reads_with="raw"):
                await running.next(Revoked)
                again = await running.assigned()
                assert all(each.resumed for each in again.values())
                assert 0 not in again or again[0].start == 50

    run(test)


def test_what_was_asked_before_a_reset_is_not_told() -> None:
    """The answer may be about the earlier log; the thread asks again."""

    async def test() -> None:
        running = RunningEngine("localhost:1", "group", reads_with="raw")
        assert isinstance(running.engine, RawEngine)
        reset = PositionReset(source("orders"), 0, "anew")
        ends, ids = {source("orders"): 1_000}, {source("orders").topic: "an id"}
        running.engine._noticed(reset)
        for resets in (0, 1):
            running.engine._from_group(HighWatermarks(ends, resets))
            running.engine._from_group(TopicsIdentified(ids, resets))
        assert running.events == [reset, HighWatermarks(ends), TopicsIdentified(ids)]
        await running.engine.close({})

    run(test)


@pytest.mark.parametrize("told", [700, 30])
def test_what_is_resumed_goes_on_where_it_is_read(told: int) -> None:
    """librdkafka's side has reported the assignment before it learnt of the reset; or our position, long ago."""

    async def test() -> None:
        running = RunningEngine("localhost:1", "group", reads_with="raw")
        assert isinstance(running.engine, RawEngine)
        orders = source("orders")
        read = running.engine._readings[orders] = Reading(orders, 700, UUID(int=2), last_epoch=4, log_epoch=4)
        running.engine._from_group(Revoked((orders,)))
        assert not read.is_asked_for
        read.position = 50
        running.engine._from_group(Assigned((AssignedPartition(orders, told, CommitPosition(0), resumed=True),)))
        again = running.engine._readings[orders]
        assert again is not read, "what was asked before does not count"
        assert (again.position, again.topic_id, again.last_epoch, again.log_epoch) == (50, UUID(int=2), 4, 4)
        assert again.is_asked_for
        assert running.events[-1] == Assigned((AssignedPartition(orders, 50, CommitPosition(0), resumed=True),))
        await running.engine.close({})

    run(test)


def test_what_librdkafka_reads_goes_on_where_it_says() -> None:
    async def test() -> None:
        running = RunningEngine("localhost:1", "group", reads_with="raw")
        assert isinstance(running.engine, RawEngine)
        orders = source("orders")
        running.engine._readings[orders] = Reading(orders, 50, delegated=True, last_epoch=4)
        running.engine._from_group(Assigned((AssignedPartition(orders, 700, CommitPosition(0), resumed=True),)))
        again = running.engine._readings[orders]
        assert (again.position, again.last_epoch, again.delegated) == (700, -1, False)
        await running.engine.close({})

    run(test)


def test_librdkafkas_side_is_told_where_a_log_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed offsets that it finds above the cut are not another member's."""

    async def test() -> None:
        running = RunningEngine("localhost:1", "group", reads_with="raw")
        assert isinstance(running.engine, RawEngine)
        advanced: list[Mapping[UpstreamPartition, int]] = []
        monkeypatch.setattr(running.engine._group, "advance", advanced.append)
        running.engine._readings[source("orders")] = Reading(source("orders"), 500)
        running.engine._noticed(Truncated(source("orders"), 500))
        assert advanced == [{source("orders"): 500}]
        await running.engine.close({})

    run(test)


@pytest.mark.parametrize("resumed", [True, False])
def test_a_topic_that_starts_again_does_so_through_a_rebalance(resumed: bool) -> None:
    """The beginning of the new topic is not known yet; another member's commits since then belong to the new one."""

    async def test() -> None:
        running = RunningEngine("localhost:1", "group", reads_with="raw")
        assert isinstance(running.engine, RawEngine)
        orders = source("orders")
        asked = running.engine._readings[orders] = Reading(orders, 0, UUID(int=2), recreated=True, suspended=True)
        running.engine._from_group(Revoked((orders,)))
        running.engine.pause(frozenset([orders]))
        running.events.clear()
        assigned = AssignedPartition(orders, 700, CommitPosition(600), resumed)
        running.engine._from_group(Assigned((assigned,)))
        reading = running.engine._readings[orders]
        assert (reading is asked, reading.suspended) == (resumed, resumed)
        assert not reading.revoked
        assert not reading.paused, "an assignment begins with nothing paused"
        assert running.events == [Assigned((assigned,))]
        await running.engine.close({})

    run(test)


def test_a_topic_that_is_created_again_in_a_rebalance_is_noticed_by_its_id() -> None:
    async def test() -> None:
        running = RunningEngine("localhost:1", "group", reads_with="raw")
        assert isinstance(running.engine, RawEngine)
        orders = source("orders")
        running.engine._readings[orders] = Reading(orders, 700, UUID(int=2))
        running.engine._from_group(Assigned((AssignedPartition(orders, 700, CommitPosition(600), resumed=True),)))
        assert running.engine._readings[orders].topic_id == UUID(int=2)
        await running.engine.close({})

    run(test)
