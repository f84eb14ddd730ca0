"""The store, on librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
import threading

import pytest
from confluent_kafka import Producer

from mesh.tasks import TaskName
from mesh.upstream.store import topic as topic_module
from mesh.upstream.store.documents import DocumentKind, DocumentTooLarge, StoreUnavailable, StoreUnreadable
from mesh.upstream.store.topic import LARGEST_DOCUMENT
from tests.planted import Planting, plants
from tests.upstream.harness import TIMEOUT, new_name, run
from tests.upstream.store.opened import opened, opening

EPOCHS = DocumentKind("epochs", 1)
LATER = DocumentKind("epochs", 2)


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mock broker answers a Fetch that waits when its time is over, and never describes a topic."""
    monkeypatch.setitem(topic_module._READER, "fetch.wait.max.ms", 10)
    monkeypatch.setattr(topic_module, "POLICY_TIMEOUT", 0.1)


def new_topic(mock_cluster: str) -> str:
    topic = new_name("store")
    Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
    return topic


def test_documents_are_there_when_they_have_been_put(mock_cluster: str) -> None:
    async def test() -> None:
        async with opened(mock_cluster, new_topic(mock_cluster)) as store:
            assert store.get(EPOCHS, "front", "g") is None
            assert await store.put(EPOCHS, "front", "g", {"stored": 1}) is None
            assert await store.put(EPOCHS, "front", "g", {"stored": 2}) == {"stored": 1}
            assert await store.put(EPOCHS, "front", "h", {"stored": 3}) is None
            assert store.get(EPOCHS, "front", "g") == {"stored": 2}
            assert sorted(store.groups(EPOCHS, "front")) == ["g", "h"]
            assert store.groups(EPOCHS, "back") == store.groups(DocumentKind("other", 1), "front") == []
            assert await store.put(EPOCHS, "front", "g", None) == {"stored": 2}
            assert store.get(EPOCHS, "front", "g") is None

    run(test)


def test_what_one_process_writes_the_others_read_and_later_ones_begin_with(mock_cluster: str) -> None:
    async def test() -> None:
        topic = new_topic(mock_cluster)
        async with opened(mock_cluster, topic) as one, opened(mock_cluster, topic) as other:
            await one.put(EPOCHS, "front", "g", {"stored": 1})
            # Its own write is read back behind all earlier ones.
            assert await other.put(EPOCHS, "front", "g", {"stored": 2}) == {"stored": 1}
            await one.put(EPOCHS, "front", "h", None)
            assert one.get(EPOCHS, "front", "g") == {"stored": 2}
        async with opened(mock_cluster, topic) as again:
            assert again.get(EPOCHS, "front", "g") == {"stored": 2}

    run(test)


def test_each_writer_is_told_what_stood_directly_before_its_own(mock_cluster: str) -> None:
    async def test() -> None:
        async with opened(mock_cluster, new_topic(mock_cluster)) as store:
            before = await asyncio.gather(*(store.put(EPOCHS, "front", "g", {"stored": n}) for n in range(20)))
            assert before == [None, *({"stored": n} for n in range(19))]

    run(test)


def test_nothing_is_read_or_written_before_all_of_it_has_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_module, "REQUEST_TIMEOUT", 0.5)  # closing waits for the request

    async def test() -> None:
        async with opening("127.0.0.1:1", "nowhere") as (store, _):
            with pytest.raises(StoreUnavailable):
                store.get(EPOCHS, "front", "g")
            with pytest.raises(StoreUnavailable):
                store.groups(EPOCHS, "front")
            with pytest.raises(StoreUnavailable):
                await store.put(EPOCHS, "front", "g", {})

    run(test)


def test_a_topic_that_is_not_there_is_not_made_unasked(mock_cluster: str) -> None:
    async def test() -> None:
        topic = new_name("nowhere")
        async with opening(mock_cluster, topic) as (store, told):
            reason = await told.until(bool)
            assert reason == f"the topic {topic} does not exist, and create is false"
            with pytest.raises(StoreUnavailable, match="does not exist"):
                store.get(EPOCHS, "front", "g")
            Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
            await told.until(lambda reason: reason == "")
            assert store.get(EPOCHS, "front", "g") is None

    run(test)


def test_nothing_is_written_over_what_is_not_understood(mock_cluster: str) -> None:
    async def test() -> None:
        async with opened(mock_cluster, new_topic(mock_cluster)) as store:
            await store.put(LATER, "front", "g", {"stored": 1})
            with pytest.raises(StoreUnreadable):
                await store.put(EPOCHS, "front", "g", {"stored": 2})
            assert store.get(LATER, "front", "g") == {"stored": 1}

    run(test)


def test_records_of_others_are_passed_over(mock_cluster: str) -> None:
    async def test() -> None:
        topic = new_topic(mock_cluster)
        producer = Producer({"bootstrap.servers": mock_cluster})
        producer.produce(topic, b"?", b"no key of ours", partition=0)
        producer.produce(topic, b"?", None, partition=0)
        producer.flush(TIMEOUT)
        async with opened(mock_cluster, topic) as store:
            assert await store.put(EPOCHS, "front", "g", {"stored": 1}) is None
            assert store.groups(EPOCHS, "front") == ["g"]

    run(test)


def test_a_document_that_is_too_large_is_refused(mock_cluster: str) -> None:
    async def test() -> None:
        async with opened(mock_cluster, new_topic(mock_cluster)) as store:
            with pytest.raises(DocumentTooLarge):
                await store.put(EPOCHS, "front", "g", {"text": "x" * LARGEST_DOCUMENT})
            assert store.get(EPOCHS, "front", "g") is None

    run(test)


@plants(TaskName.STORE, at=(1,))
def test_a_callback_that_raises_ends_no_thread(mock_cluster: str, planting: Planting) -> None:
    async def test() -> None:
        with planting.into_call() as reports:
            async with opened(mock_cluster, new_topic(mock_cluster)) as store:
                await store.put(EPOCHS, "front", "g", {"stored": 1})
                raised = threading.Event()

                def end(*_: object) -> None:
                    raised.set()
                    planting.throw()

                store._topic.write(b"key", b"value", end)
                assert await asyncio.to_thread(raised.wait, TIMEOUT)
                assert await store.put(EPOCHS, "front", "g", {"stored": 2}) == {"stored": 1}
        assert [task.name for task in reports.working] == [TaskName.STORE]

    run(test)
