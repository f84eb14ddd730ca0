"""Several members in one upstream group: what comes back, what goes, who may commit, and both families of assignors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from mesh.records.spans import CommitPosition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    EngineName,
    GroupDown,
    GroupUp,
    Lost,
    PositionReset,
    Revoked,
    SourceDown,
)
from mesh.upstream.groups import fencing
from mesh.upstream.librdkafka import consumer_thread
from mesh.upstream.problems import UpstreamProblem
from tests.integration.kafka import KafkaCluster
from tests.upstream.harness import RunningEngine, engine, new_name, produce, run, source

PARTITIONS = 4
RECORDS = 200


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    """Four partitions of 200 records."""
    name = new_name("topic")
    kafka.create_topic(name, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(kafka.bootstrap_servers, name, RECORDS, partition)
    return name


@contextmanager
def other_member(kafka: KafkaCluster, group: str, topic: str, **properties: str) -> Iterator[Consumer]:
    """A foreign consumer that is being polled, after its first assignment."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
            **properties,
        }
    )
    assigned, leaving = threading.Event(), threading.Event()

    def poll() -> None:
        consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
        while not leaving.is_set():
            consumer.poll(0.05)
        consumer.close()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        assert assigned.wait(20)
        yield consumer
    finally:
        leaving.set()
        thread.join()


async def whole(running: RunningEngine, size: int) -> dict[int, AssignedPartition]:
    """The first assignment with so many partitions."""
    while len(assigned := await running.assigned()) != size:
        pass
    return assigned


def test_what_comes_straight_back_is_resumed_and_what_goes_is_not_committed(kafka: KafkaCluster, topic: str) -> None:
    group = new_name("group")

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic) as first:
            await first.ends(PARTITIONS)
            stored = {source(topic, partition): CommitPosition(50, "x") for partition in range(PARTITIONS)}
            assert set((await first.commit(stored)).values()) == {0}
            first.events.clear()
            async with engine(kafka.bootstrap_servers, group, topic) as second:
                taken = await whole(second, 2)
                assert {each.start for each in taken.values()} == {50}
                assert len((await first.next(Revoked)).partitions) == PARTITIONS
                kept = await whole(first, 2)
                assert {(each.start, each.resumed, each.committed) for each in kept.values()} == {
                    (RECORDS, True, CommitPosition(50, "x"))
                }
                gone, mine = source(topic, min(taken)), source(topic, min(kept))
                errors = await first.commit({gone: CommitPosition(150), mine: CommitPosition(60)})
                assert errors == {gone: 27, mine: 0}
                await second.ends(2)
                assert set((await second.commit({gone: CommitPosition(120)})).values()) == {0}
            back = await whole(first, PARTITIONS)
            assert (back[gone.partition].start, back[gone.partition].resumed) == (120, False)
            assert (back[mine.partition].start, back[mine.partition].resumed) == (RECORDS, True)
            await first.until(lambda: len(first.records(topic, gone.partition)) == RECORDS - 120)
            assert first.records(topic, mine.partition) == []
            assert first.all(PositionReset) == []

    run(test)


def test_a_rebalance_is_served_while_nothing_is_consumed(kafka: KafkaCluster, topic: str) -> None:
    group = new_name("group")
    for partition in range(PARTITIONS):
        produce(kafka.bootstrap_servers, topic, 5_000, partition)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic) as first:
            await first.assigned()
            first.engine.set_consuming(False)
            async with engine(kafka.bootstrap_servers, group, topic) as second:
                await whole(second, 2)
                kept = await whole(first, 2)
                received = sum(len(first.records(topic, partition)) for partition in kept)
                assert received < 100
                first.engine.set_consuming(True)
                await first.ends(2)
                for partition, each in kept.items():
                    offsets = [record.offset for record in first.records(topic, partition)]
                    assert offsets == list(range(each.start, RECORDS + 5_000))

    run(test)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_of_other_members_is_joined_whatever_its_assignors(
    kafka: KafkaCluster, topic: str, strategy: str
) -> None:
    group = new_name("group")

    async def test() -> None:
        with other_member(kafka, group, topic, **{"partition.assignment.strategy": strategy}):
            async with engine(kafka.bootstrap_servers, group, topic) as running:
                taken = await whole(running, 2)
                await running.until(lambda: all(len(running.records(topic, each)) == RECORDS for each in taken))
                assert not running.all(SourceDown) and not running.all(GroupDown)

    run(test)


def test_cooperative_members_keep_what_they_have(kafka: KafkaCluster, topic: str) -> None:
    group = new_name("group")

    async def test() -> None:
        with other_member(kafka, group, topic, **{"partition.assignment.strategy": "cooperative-sticky"}):
            first = RunningEngine(kafka.bootstrap_servers, group)
            first.engine.subscribe(frozenset([source(topic).topic]))
            await whole(first, 2)
            await first.ends(2)
            first.events.clear()
            async with engine(kafka.bootstrap_servers, group, topic) as second:
                taken = await whole(second, 1)
                await second.ends()
                (gone,) = taken
                if first.all(Revoked):  # otherwise the other member had to give up some
                    assert [each.partition for each in (await first.next(Revoked)).partitions] == [gone]
                    (kept,) = (await first.next(Assigned)).partitions
                    assert (kept.start, kept.resumed) == (RECORDS, True)
        # Both others have left: the remaining member gets everything, and reads on where it was.
        back = await whole(first, PARTITIONS)
        assert sum(each.resumed for each in back.values()) >= 1
        await first.ends(PARTITIONS)
        assert await first.engine.close({source(topic): CommitPosition(9)}) == {source(topic): 0}

    run(test)
    assert kafka.committed(group)[topic, 0] == 9


def test_the_start_of_a_new_group_is_stored_at_once(kafka: KafkaCluster, topic: str) -> None:
    group = new_name("group")

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, start="latest") as running:
            assigned = await running.assigned()
            assert {(each.start, each.committed.offset) for each in assigned.values()} == {(RECORDS, RECORDS)}
            assert set(kafka.committed(group).values()) == {RECORDS}
            produce(kafka.bootstrap_servers, topic, 3)
            await running.until(lambda: len(running.records(topic)) == 3)

    run(test)
    assert set(kafka.committed(group).values()) == {RECORDS}


@pytest.mark.parametrize("instance_id", [None, "static-1"])
def test_a_clean_stop_leaves_the_group(kafka: KafkaCluster, topic: str, instance_id: str | None) -> None:
    group = new_name("group")

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, instance_id=instance_id) as running:
            await running.assigned()
            assert kafka.group_members(group) == 1
        assert kafka.group_members(group) == 0

    run(test)


def test_a_member_that_is_fenced_says_so_and_stays_out_until_the_other_has_left(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not fence the other one in turn."""
    monkeypatch.setattr(fencing, "INTERVAL", 0.5)
    monkeypatch.setattr(consumer_thread, "REJOIN", 0.5)
    group = new_name("group")

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, instance_id="same") as first:
            await first.assigned()
            async with engine(kafka.bootstrap_servers, group, topic, instance_id="same") as second:
                await second.assigned()
                down = await first.next(GroupDown)
                assert down.problem is UpstreamProblem.FENCED
                assert group in down.reason
                assert "group.instance.id same" in down.reason
                first.events.clear()
                second.events.clear()
                await asyncio.sleep(5)  # ten times as long as a fight would take
                assert not [event for event in first.events if not isinstance(event, Lost)]
                assert not second.all(GroupDown)
                assert await second.commit({source(topic): CommitPosition(3)}) == {source(topic): 0}
            assert (await first.assigned())[0].start == 3
            await first.next(GroupUp)
            assert await first.commit({source(topic): CommitPosition(4)}) == {source(topic): 0}

    run(test)


@pytest.mark.parametrize(
    ("strategy", "reads_with", "properties"),
    [
        ("range,roundrobin", "raw", {}),
        ("range,roundrobin", "librdkafka", {}),
        ("cooperative-sticky", "raw", {}),
        # Our own connections do not support it.
        ("range,roundrobin", "librdkafka", {"client.dns.lookup": "use_all_dns_ips"}),
    ],
)
def test_partitions_that_came_while_the_only_member_was_away_are_its_own(
    kafka: KafkaCluster, topic: str, strategy: str, reads_with: EngineName, properties: Mapping[str, str]
) -> None:
    """A static member that goes without a word: the coordinator keeps its place, and its partitions."""
    group = new_name("group")
    static = {"group.instance.id": "one", "partition.assignment.strategy": strategy}
    with other_member(kafka, group, topic, **static):
        pass
    kafka.grow_topic(topic, PARTITIONS + 2)

    async def test() -> None:
        settings = {"instance_id": "one", "reads_with": reads_with, "properties": properties}
        async with engine(kafka.bootstrap_servers, group, topic, **settings) as running:
            assert set(await whole(running, PARTITIONS + 2)) == set(range(PARTITIONS + 2))
            assert not running.all(SourceDown)
            assert not running.all(GroupDown)

    run(test)


def test_partitions_that_came_while_all_members_were_away_are_somebodys(kafka: KafkaCluster, topic: str) -> None:
    """They go to the member that leads the group, and none is told that it does."""
    group = new_name("group")
    with (
        other_member(kafka, group, topic, **{"group.instance.id": "one"}),
        other_member(kafka, group, topic, **{"group.instance.id": "two"}),
    ):
        assert kafka.group_members(group) == 2
    kafka.grow_topic(topic, PARTITIONS + 2)

    async def test() -> None:
        async with (
            engine(kafka.bootstrap_servers, group, topic, instance_id="one") as one,
            engine(kafka.bootstrap_servers, group, topic, instance_id="two") as two,
        ):
            first, second = await asyncio.gather(whole(one, 3), whole(two, 3))
            assert first.keys() | second.keys() == set(range(PARTITIONS + 2))

    run(test)


@pytest.mark.long
def test_membership_lasts_while_nothing_is_consumed(kafka: KafkaCluster, topic: str) -> None:
    """Longer than the session, and than max.poll.interval.ms, after which librdkafka leaves if it is not polled."""
    group = new_name("group")
    limits = {"max.poll.interval.ms": "10000"}

    async def test() -> None:
        async with engine(
            kafka.bootstrap_servers, group, topic, session_timeout_ms=10_000, properties=limits
        ) as running:
            await running.assigned()
            running.engine.set_consuming(False)
            await asyncio.sleep(30)  # the passing of time must do no harm
            assert await running.commit({source(topic): CommitPosition(3)}) == {source(topic): 0}
            assert not running.all(Revoked)
            assert not running.all(Lost)

    run(test)


@pytest.mark.parametrize("reads_with", ["raw", "librdkafka"])
def test_a_static_member_whose_client_is_replaced_moves_no_partition(
    kafka: KafkaCluster, topic: str, reads_with: EngineName
) -> None:
    """The next engine begins at the last commit. The other member notices nothing."""
    group = new_name("group")

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, instance_id="other", reads_with=reads_with) as other:
            await whole(other, PARTITIONS)
            async with engine(kafka.bootstrap_servers, group, topic, instance_id="own", reads_with=reads_with) as own:
                mine = await whole(own, 2)
                await whole(other, 2)
                other.events.clear()
                last = {source(topic, partition): CommitPosition(70) for partition in mine}
                assert set((await own.engine.close(last, leaves=False)).values()) == {0}
                async with engine(
                    kafka.bootstrap_servers, group, topic, instance_id="own", reads_with=reads_with
                ) as new:
                    again = await whole(new, 2)
                    assert {partition: each.start for partition, each in again.items()} == dict.fromkeys(mine, 70)
                    await new.ends(2)
                    assert (other.all(Revoked), other.all(Lost)) == ([], [])

    run(test)
