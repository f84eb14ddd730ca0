"""Brokers that are gone, hang or come back; topics that are made anew. On a broker of this module's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from mesh.records.spans import CommitPosition, Span, TopicName
from mesh.upstream import catalog as catalog_module
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, CatalogUpdate, TopicCatalog
from mesh.upstream.engine import (
    HighWatermarks,
    PositionReset,
    Reread,
    RereadToken,
    SourceDown,
    SourceUp,
    TopicsIdentified,
)
from mesh.upstream.groups import descriptions as groups
from mesh.upstream.librdkafka import engine as librdkafka
from mesh.upstream.librdkafka import reader_thread
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client import groups as messages_of_groups
from mesh.wire.client.connection import ClientRequest
from mesh.wire.client.messages import VersionRange
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.upstream.harness import CLUSTER, RunningEngine, engine, new_name, produce, run, source

pytestmark = pytest.mark.kafka
QUICK = {"socket.timeout.ms": "3000", "reconnect.backoff.max.ms": "200"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster("outages", kafka_jars(), tmp_path_factory.mktemp("outages"), SHORT_SESSIONS)
    yield cluster
    cluster.kill()


@pytest.fixture
def topic(broker: KafkaCluster) -> str:
    broker.revive()  # an earlier test may have failed between a kill and a restart
    name = new_name("topic")
    broker.create_topic(name, 1)
    produce(broker.bootstrap_servers, name, 100)
    return name


def test_a_broker_that_is_killed_and_comes_back(broker: KafkaCluster, topic: str) -> None:
    async def test() -> None:
        # The member must outlive a broker's start, which takes half a minute on a busy machine.
        async with engine(
            broker.bootstrap_servers, new_name("group"), topic, properties=QUICK, session_timeout_ms=60_000
        ) as running:
            await running.ends()
            await asyncio.to_thread(broker.kill)
            await running.next(SourceDown)
            broker.restart()  # from the main thread: children die with the thread that started them
            await running.next(SourceUp)
            await asyncio.to_thread(produce, broker.bootstrap_servers, topic, 5)
            await running.until(lambda: len(running.records(topic)) == 5)
            assert [record.offset for record in running.records(topic)] == list(range(100, 105))
            assert not running.all(PositionReset)
            assert not running.all(SourceDown)
            assert await running.commit({source(topic): CommitPosition(105)}) == {source(topic): 0}

    run(test)


def test_a_broker_that_hangs(broker: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits wait, spans are given up, and a close takes no longer than allowed."""
    monkeypatch.setattr(reader_thread, "GIVE_UP", 2.0)

    async def test() -> None:
        async with engine(broker.bootstrap_servers, new_name("group"), topic, properties=QUICK) as running:
            await running.ends()
            running.events.clear()
            broker.freeze()
            try:
                pending = asyncio.ensure_future(running.commit({source(topic): CommitPosition(7)}))  # noqa: TID251
                running.engine.reread(RereadToken(1), source(topic), Span(0, 9))
                failed = (await running.until(lambda: running.all(Reread)))[-1]
                assert (failed.batches, failed.complete) == ((), True)
                assert failed.error
                await running.until(lambda: running.all(SourceDown))
                running.engine.set_consuming(False)
                running.engine.set_consuming(True)
            finally:
                broker.thaw()
            await running.next(SourceUp)
            # Stored late, or refused by the timeout: it is answered in any case.
            assert (await pending)[source(topic)] in {0, 7, -185, -195, 27, 25}
            # The session may have ended meanwhile.
            while (errors := await running.commit({source(topic): CommitPosition(8)})) != {source(topic): 0}:
                assert errors[source(topic)] in {7, 25, 27}

    run(test)


def test_a_broker_that_hangs_is_noticed(broker: KafkaCluster, topic: str) -> None:
    """Although librdkafka waits for a minute, and no commit is sent; then commits do not wait."""

    async def test() -> None:
        patient = {"socket.timeout.ms": "60000"}
        async with engine(broker.bootstrap_servers, new_name("group"), topic, properties=patient) as running:
            await running.ends()
            running.events.clear()
            broker.freeze()
            try:
                await running.next(SourceDown)
                assert await running.commit({source(topic): CommitPosition(7)}) == {source(topic): 7}
                assert not running.all(SourceUp)
            finally:
                broker.thaw()
            await running.next(SourceUp)
            # The session may have ended meanwhile.
            while (errors := await running.commit({source(topic): CommitPosition(8)})) != {source(topic): 0}:
                assert errors[source(topic)] in {7, 25, 27}

    run(test)


def test_a_coordinator_that_is_killed_while_it_is_asked_who_is_in_a_group(
    broker: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka's admin client would end the process. Here the answer comes when the coordinator is back."""
    monkeypatch.setattr(groups, "REQUEST_TIMEOUT", 120.0)
    is_asked = asyncio.Event()
    asked_for = messages_of_groups.describe_group_request

    def hangs_then(group: str, served: VersionRange | None) -> ClientRequest:
        if not is_asked.is_set():
            is_asked.set()
            broker.freeze()
        return asked_for(group, served)

    monkeypatch.setattr(messages_of_groups, "describe_group_request", hangs_then)

    async def test() -> None:
        group = new_name("group")
        async with engine(
            broker.bootstrap_servers, group, topic, properties=QUICK, session_timeout_ms=45_000
        ) as running:
            await running.ends()
            nodes = Nodes(CLUSTER, broker.bootstrap_servers, connection_settings_of(QUICK))
            question = asyncio.ensure_future(groups.describe(nodes, group))  # noqa: TID251 - awaited below
            await is_asked.wait()
            await asyncio.to_thread(broker.kill)
            broker.restart()  # from the main thread: children die with the thread that started them
            described = await question
            assert described.state in {"Stable", "PreparingRebalance", "CompletingRebalance"}
            assert len(described.members) == 1
            nodes.close()

    run(test)


def test_closing_while_the_broker_hangs(broker: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "CLOSE_TIMEOUT", 3.0)

    async def test() -> None:
        running = RunningEngine(broker.bootstrap_servers, new_name("group"), properties=QUICK)
        running.engine.subscribe(frozenset([source(topic).topic]))
        await running.ends()
        broker.freeze()
        try:
            async with asyncio.timeout(8):
                errors = await running.engine.close({source(topic): CommitPosition(7)})
            assert errors[source(topic)] != 0
        finally:
            broker.thaw()

    run(test)


@pytest.mark.parametrize("again", [0, 30, 300])
def test_a_topic_that_is_created_again(broker: KafkaCluster, topic: str, again: int) -> None:
    """Empty, with fewer records than before, and with more: then it has records at the old position."""

    async def test() -> None:
        async with engine(broker.bootstrap_servers, new_name("group"), topic, properties=QUICK) as running:
            await running.ends()
            (before,) = (await running.next(TopicsIdentified)).ids.values()
            running.events.clear()
            await asyncio.to_thread(broker.delete_topic, topic)
            await asyncio.to_thread(broker.create_topic, topic, 1)
            await asyncio.to_thread(produce, broker.bootstrap_servers, topic, again)
            assert (await running.next(PositionReset)).start == 0
            await running.until(lambda: again == len({record.offset for record in running.records(topic)}))
            await running.until(lambda: HighWatermarks({source(topic): again}) in running.events)
            after = (await running.until(lambda: running.all(TopicsIdentified)))[-1].ids[source(topic).topic]
            assert before
            assert after not in ("", before)
            assert [record.value for record in running.records(topic)] == [b"%d" % number for number in range(again)]
            # A client that sees that the topic was gone joins the group again.
            while (errors := await running.commit({source(topic): CommitPosition(0)})) != {source(topic): 0}:
                assert errors == {source(topic): 27}

    run(test)


def test_the_catalog(broker: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        events: asyncio.Queue[CatalogEvent] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        catalog = TopicCatalog(CLUSTER, broker.bootstrap_servers, QUICK, 600, events.put_nowait, loop)

        async def until_topics(expected: Mapping[TopicName, int]) -> None:
            """A slow machine may make a broker unreachable for a second: this skips reports of that."""
            async with asyncio.timeout(60):
                while await events.get() != CatalogUpdate(CLUSTER, expected):
                    pass

        async def until_unreachable() -> None:
            async with asyncio.timeout(60):
                while not isinstance(await events.get(), CatalogUnreachable):
                    pass

        first = await events.get()
        assert isinstance(first, CatalogUpdate)
        assert first.topics[source(topic).topic] == 1
        assert not [name for name in first.topics if name.startswith("__")]
        other = new_name("topic")
        await asyncio.to_thread(broker.create_topic, other, 3)
        catalog.refresh_soon()
        await until_topics({**first.topics, source(other).topic: 3})
        await asyncio.to_thread(broker.delete_topic, other)
        catalog.refresh_soon()
        await until_topics(first.topics)
        monkeypatch.setattr(catalog_module, "REQUEST_TIMEOUT", 1.0)
        await asyncio.to_thread(broker.kill)
        catalog.refresh_soon()
        await until_unreachable()
        broker.restart()  # from the main thread: children die with the thread that started them
        await until_topics(first.topics)
        catalog.close()

    run(test)
