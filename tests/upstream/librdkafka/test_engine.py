"""The engine on a quiet cluster: records, ends, commits, pauses, spans read again, the last commit."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition

from mesh.records.runs import singles
from mesh.records.spans import CommitPosition, Span
from mesh.tasks import OwnedTask, TaskName, reporting
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, CatalogUpdate, TopicCatalog
from mesh.upstream.engine import (
    Committed,
    CommitToken,
    EndReached,
    EngineFailed,
    Received,
    Reread,
    RereadToken,
    SourceDown,
)
from mesh.upstream.problems import UpstreamProblem
from tests.integration.kafka import KafkaCluster
from tests.planted import Planting, plants
from tests.test_tasks import Reports
from tests.upstream import harness
from tests.upstream.harness import CLUSTER, ENGINE, RunningEngine, new_name, produce, run, source

PARTITIONS = 4
engine = partial(harness.engine, reads_with=ENGINE)


def test_records_arrive_in_order_and_the_end_is_told(kafka: KafkaCluster) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap_servers, topic, 2_000, partition=1)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with="librdkafka") as running:
            assigned = await running.assigned()
            assert {number: each.start for number, each in assigned.items()} == dict.fromkeys(range(PARTITIONS), 0)
            assert assigned[1].end == 2_000
            await running.ends(PARTITIONS)
            assert [record.value for record in running.records(topic, 1)] == [b"%d" % n for n in range(2_000)]
            assert {event.partition.partition: event.offset for event in running.all(EndReached)}[1] == 2_000
            batches = [batch for event in running.all(Received) for run in event.batches for batch in singles(run)]
            assert all(len(batch.data) < 20_000 for batch in batches)

    run(test)


def test_commits_are_stored_and_those_of_others_partitions_are_not(kafka: KafkaCluster) -> None:
    topic, group = new_name("topic"), new_name("group")
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap_servers, topic, 100)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic) as running:
            await running.assigned()
            errors = await running.commit(
                {source(topic): CommitPosition(7, "seven"), source("foreign"): CommitPosition(1)}
            )
            assert errors == {source(topic): 0, source("foreign"): 27}
            assert await running.commit({source("foreign"): CommitPosition(1)}) == {source("foreign"): 27}
        async with engine(kafka.bootstrap_servers, group, topic) as running:
            again = (await running.assigned())[0]
            assert (again.start, again.committed, again.resumed) == (7, CommitPosition(7, "seven"), False)
            await running.ends(PARTITIONS)
            assert [record.offset for record in running.records(topic)] == list(range(7, 100))

    run(test)


def test_many_commits_are_answered_one_by_one_in_order(kafka: KafkaCluster) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap_servers, topic, 10)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic) as running:
            await running.assigned()
            for number in range(20):
                running.engine.commit(CommitToken(number), {source(topic): CommitPosition(number // 2)})
            await running.until(lambda: len(running.all(Committed)) == 20)
            assert [event.token for event in running.all(Committed)] == list(range(20))
            assert {error for event in running.all(Committed) for error in event.errors.values()} == {0}

    run(test)


def test_the_last_commit_is_made_when_the_engine_closes(kafka: KafkaCluster) -> None:
    topic, group = new_name("topic"), new_name("group")
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap_servers, topic, 10)

    async def test() -> None:
        running = RunningEngine(kafka.bootstrap_servers, group)
        running.engine.subscribe(frozenset([source(topic).topic]))
        await running.assigned()
        told = len(running.events)
        assert await running.engine.close({source(topic): CommitPosition(5, "last")}) == {source(topic): 0}
        assert len(running.events) == told

    run(test)
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    (stored,) = reader.committed([TopicPartition(topic, 0)], timeout=10)
    assert (stored.offset, stored.metadata) == (5, "last")
    reader.close()
    assert not [thread for thread in threading.enumerate() if group in thread.name]


def test_an_engine_that_never_joined_closes(kafka: KafkaCluster) -> None:
    async def test() -> None:
        assert await RunningEngine(kafka.bootstrap_servers, new_name("group")).engine.close({}) == {}

    run(test)


def test_nothing_flows_but_commits_while_not_consuming(kafka: KafkaCluster) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap_servers, topic, 3_000)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic) as running:
            running.engine.set_consuming(False)
            await running.assigned()
            assert await running.commit({source(topic): CommitPosition(1)}) == {source(topic): 0}
            # A poll that only serves commits and rebalances brings one record at most.
            assert len(running.records(topic)) < 100
            running.engine.set_consuming(True)
            await running.ends(PARTITIONS)
            assert [record.offset for record in running.records(topic)] == list(range(3_000))

    run(test)


def test_what_is_paused_does_not_flow_and_nothing_is_lost_by_it(kafka: KafkaCluster) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, PARTITIONS)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic) as running:
            await running.assigned()
            running.engine.pause(frozenset([source(topic, 0)]))
            await running.commit({source(topic): CommitPosition(0)})  # the pause came before
            await asyncio.to_thread(produce, kafka.bootstrap_servers, topic, 100, 0)
            await asyncio.to_thread(produce, kafka.bootstrap_servers, topic, 100, 1)
            await running.until(lambda: len(running.records(topic, 1)) == 100)
            assert running.records(topic, 0) == []
            running.engine.resume(frozenset([source(topic, 0)]))
            await running.until(lambda: len(running.records(topic, 0)) == 100)

    run(test)


def test_a_span_is_read_again_beside_the_normal_reading(kafka: KafkaCluster) -> None:
    topic = new_name("topic")
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap_servers, topic, 500)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with="librdkafka") as running:
            await running.ends(PARTITIONS)
            running.events.clear()
            running.engine.reread(RereadToken(1), source(topic), Span(100, 149))
            running.engine.reread(RereadToken(2), source(topic), Span(490, 600))
            first, second = await running.next(Reread), await running.next(Reread)
            assert (first.token, first.complete, first.error) == (1, True, "")
            assert [(batch.first, batch.last) for batch in first.batches] == [(100, 149)]
            assert [(batch.first, batch.last) for batch in second.batches] == [(490, 499)]
            assert running.all(Received) == []

    run(test)


def test_a_new_topic_is_added_while_running(kafka: KafkaCluster) -> None:
    first, second = new_name("topic"), new_name("topic")
    for topic in (first, second):
        kafka.create_topic(topic, PARTITIONS)
        produce(kafka.bootstrap_servers, topic, 10)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), first) as running:
            await running.ends(PARTITIONS)
            running.engine.subscribe(frozenset([source(first).topic, source(second).topic]))
            await running.until(lambda: len(running.records(second)) == 10)
            assert [record.offset for record in running.records(first)] == list(range(10))

    run(test)


def test_properties_that_librdkafka_refuses(kafka: KafkaCluster) -> None:
    async def test() -> None:
        topic = new_name("topic")
        async with engine(
            kafka.bootstrap_servers, new_name("group"), topic, properties={"no.such": "property"}
        ) as running:
            assert "no.such" in (await running.next(SourceDown)).reason
            assert await running.commit({source(topic): CommitPosition(1)}) == {source(topic): 27}

    run(test)


def test_a_cluster_that_is_not_there_is_told_once() -> None:
    async def test() -> None:
        running = RunningEngine("127.0.0.1:1", new_name("group"))
        running.engine.subscribe(frozenset([source("any").topic]))
        await running.next(SourceDown)
        running.engine.reread(RereadToken(1), source("any"), Span(0, 1))
        assert await running.engine.close({source("any"): CommitPosition(1)}) == {source("any"): 27}
        assert running.all(SourceDown) == []

    run(test)


def test_an_address_that_does_not_exist() -> None:
    async def test() -> None:
        running = RunningEngine("no.such.host.invalid:9092", new_name("group"))
        running.engine.subscribe(frozenset([source("any").topic]))
        down = await running.next(SourceDown)
        assert (down.problem, "no.such.host.invalid" in down.reason) == (UpstreamProblem.ADDRESS, True)
        await running.engine.close({})

    run(test)


@pytest.mark.parametrize(
    "culprit", ["LogEnds.poll", "TopicIds.find_recreated", "Reachability.probe", "MessageReader.take"]
)
def test_a_bug_is_told_once_and_the_engine_does_nothing_any_more(
    mock_cluster: str, culprit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_name("topic")
    produce(mock_cluster, topic, 1)

    async def test() -> None:
        running = RunningEngine(mock_cluster, new_name("group"))
        monkeypatch.setattr(f"mesh.upstream.librdkafka.consumer_thread.{culprit}", lambda *_: 1 // 0)
        running.engine.subscribe(frozenset([source(topic).topic]))
        failed = await running.next(EngineFailed)
        assert failed.reason.startswith("ZeroDivisionError")
        assert "1 // 0" in failed.traceback
        async with asyncio.timeout(5):
            assert await running.engine.close({source(topic): CommitPosition(1)}) == {source(topic): 27}

    run(test)


@plants(TaskName.CATALOG, at=(1,))
def test_the_look_at_topics_goes_on_after_a_bug(
    mock_cluster: str, monkeypatch: pytest.MonkeyPatch, planting: Planting
) -> None:
    topic = new_name("topic")
    produce(mock_cluster, topic, 1)

    async def test() -> None:
        events: asyncio.Queue[CatalogEvent] = asyncio.Queue()
        problem, task = planting.problem, OwnedTask(TaskName.CATALOG, cluster=CLUSTER)
        with planting.into_call() as reports:
            with monkeypatch.context() as patch:
                patch.setattr(TopicCatalog, "_topics", planting.throw)
                catalog = TopicCatalog(CLUSTER, mock_cluster, {}, 1, events.put_nowait, asyncio.get_running_loop())
                async with asyncio.timeout(30):
                    failed = await events.get()
                assert isinstance(failed, CatalogUnreachable)
                assert (failed.problem, type(problem).__name__ in failed.reason) == (UpstreamProblem.UNREACHABLE, True)
            async with asyncio.timeout(30):
                update = await events.get()
                while not reports.working:  # noqa: ASYNC110 - a list has no event
                    await asyncio.sleep(0.01)
        assert isinstance(update, CatalogUpdate)
        assert source(topic).topic in update.topics
        assert {each for each, _, _ in reports.failures} == {task}
        assert reports.working == [task]
        catalog.close()

    run(test)


def test_topics_that_were_not_taken_are_reported_again(mock_cluster: str) -> None:
    topic = new_name("topic")
    produce(mock_cluster, topic, 1)

    async def test() -> None:
        events, left = asyncio.Queue[CatalogEvent](), [KeyError("relay"), OSError(24, "Too many open files")]

        def take(event: CatalogEvent) -> None:
            if left:
                raise left.pop()
            events.put_nowait(event)

        reports = Reports()
        with reporting(reports):
            catalog = TopicCatalog(CLUSTER, mock_cluster, {}, 1, take, asyncio.get_running_loop())
            async with asyncio.timeout(30):
                update = await events.get()
            catalog.close()
        assert isinstance(update, CatalogUpdate)
        assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.CATALOG, cluster=CLUSTER)] * 2

    run(test)


def test_the_embedded_cluster_will_do(mock_cluster: str) -> None:
    """A test of all of it, for machines without Java. The mock group coordinator takes 3 s for the first member."""
    topic = new_name("topic")
    produce(mock_cluster, topic, 300, partition=1)

    async def test() -> None:
        async with engine(mock_cluster, new_name("group"), topic, reads_with="librdkafka") as running:
            assert {number: each.start for number, each in (await running.assigned()).items()} == dict.fromkeys(
                range(PARTITIONS), 0
            )
            await running.ends(PARTITIONS)
            assert [record.value for record in running.records(topic, 1)] == [b"%d" % n for n in range(300)]
            assert await running.commit({source(topic, 1): CommitPosition(7)}) == {source(topic, 1): 0}
            running.engine.reread(RereadToken(1), source(topic, 1), Span(10, 19))
            again = await running.next(Reread)
            assert [(batch.first, batch.last) for batch in again.batches] == [(10, 19)]
            assert await running.engine.close({source(topic, 1): CommitPosition(8)}) == {source(topic, 1): 0}

    run(test)
