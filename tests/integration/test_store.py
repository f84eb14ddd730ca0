"""The store on a real broker: created, read again after a restart, shared by two processes, unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from mesh.upstream.store.documents import DocumentKind, StoreUnavailable
from mesh.upstream.store.store import TopicStore
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.upstream.harness import run
from tests.upstream.store.opened import opened, opening

EPOCHS = DocumentKind("epochs", 1)


pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster("store", kafka_jars(), tmp_path_factory.mktemp("store"))
    yield cluster
    cluster.kill()


def test_it_is_made_compacted_and_read_again(cluster: KafkaCluster) -> None:
    async def test() -> None:
        async with opened(cluster.bootstrap_servers, "made", create=True) as store:
            await store.put(EPOCHS, "front", "g", {"stored": 1})
            await store.put(EPOCHS, "front", "g", {"stored": 2})
        async with opened(cluster.bootstrap_servers, "made") as again:
            assert again.get(EPOCHS, "front", "g") == {"stored": 2}

    run(test)


def test_two_processes_read_what_the_other_one_writes(cluster: KafkaCluster) -> None:
    cluster.create_topic("shared", 3, {"cleanup.policy": "compact"})

    async def test() -> None:
        servers = cluster.bootstrap_servers
        async with opened(servers, "shared") as one, opened(servers, "shared") as other:

            async def count(store: TopicStore, name: str) -> None:
                for number in range(20):
                    await store.put(EPOCHS, name, "g", {"stored": number})

            await asyncio.gather(count(one, "a"), count(other, "b"))
            assert await one.put(EPOCHS, "c", "g", None) is None
            assert one.get(EPOCHS, "b", "g") == {"stored": 19}
            assert await other.put(EPOCHS, "c", "g", None) is None
            assert other.get(EPOCHS, "a", "g") == {"stored": 19}

    run(test)


def test_a_topic_that_loses_documents_is_not_used(cluster: KafkaCluster) -> None:
    cluster.create_topic("short", 1, {"cleanup.policy": "delete"})

    async def test() -> None:
        async with opening(cluster.bootstrap_servers, "short") as (store, told):
            reason = await told.until(bool)
            assert reason == "the topic short has cleanup.policy=delete; set it to compact"
            with pytest.raises(StoreUnavailable):
                store.get(EPOCHS, "front", "g")

    run(test)


def test_while_its_cluster_is_away_what_is_known_is_read_and_nothing_is_written(cluster: KafkaCluster) -> None:
    async def test() -> None:
        async with opened(cluster.bootstrap_servers, "away", create=True) as store:
            await store.put(EPOCHS, "front", "g", {"stored": 1})
            await asyncio.to_thread(cluster.kill)
            with pytest.raises(StoreUnavailable):
                await store.put(EPOCHS, "front", "g", {"stored": 2})
            assert store.get(EPOCHS, "front", "g") == {"stored": 1}
            await asyncio.to_thread(cluster.restart)
            await until_taken(store)
            assert store.get(EPOCHS, "front", "g") == {"stored": 3}

    async def until_taken(store: TopicStore) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    await store.put(EPOCHS, "front", "g", {"stored": 3})
                except StoreUnavailable:
                    continue  # this takes time
                return

    run(test)
