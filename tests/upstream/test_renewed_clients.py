"""The clients of librdkafka without a group, on its mock cluster, when a file of their properties changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from mesh.records.spans import Span
from mesh.upstream import admin as admin_module
from mesh.upstream import catalog as catalog_module
from mesh.upstream import renewed
from mesh.upstream.admin import LazyAdmin
from mesh.upstream.catalog import CatalogEvent, CatalogUpdate, TopicCatalog
from mesh.upstream.engine import EngineName
from mesh.upstream.librdkafka import consumer_thread as consumer_thread_module
from mesh.upstream.librdkafka import reader_thread as reader_thread_module
from mesh.upstream.store import topic as topic_module
from mesh.upstream.store.documents import DocumentKind
from mesh.upstream.writers import dead_letters as dead_letters_module
from mesh.upstream.writers import journal as journal_module
from mesh.upstream.writers.dead_letters import DeadLetterWriter
from tests.integration.processes import eventually
from tests.upstream.harness import CLUSTER, TIMEOUT, engine, new_name, produce, run, source
from tests.upstream.store.opened import opened
from tests.upstream.writers.test_dead_letters import write as write_letter
from tests.upstream.writers.test_journal import write as write_page
from tests.upstream.writers.test_journal import writer_of

EPOCHS = DocumentKind("epochs", 1)


class Certificate:
    """A file of the properties, which is replaced again and again. Clients do not read it, as they have no TLS."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.properties = {"ssl.ca.location": str(path)}
        self._number = 0
        self.replace()

    def replace(self) -> None:
        self._number += 1
        self._path.write_text("x" * self._number)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    monkeypatch.setattr(renewed, "INTERVAL", 0.0)
    return Certificate(tmp_path / "ca.crt")


Counted = Callable[[Any, str], Mock]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Counts the clients that a module makes of a class."""

    def count(module: Any, name: str) -> Mock:
        kind: type[AdminClient] | type[Producer] = getattr(module, name)
        made = Mock(side_effect=kind)
        monkeypatch.setattr(module, name, made)
        return made

    return count


def new_topic(mock_cluster: str) -> str:
    topic = new_name("topic")
    Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
    return topic


def test_the_journal(mock_cluster: str, certificate: Certificate, counted: Counted) -> None:
    async def test() -> None:
        told: list[str] = []
        producers = counted(journal_module, "Producer")
        writer = writer_of(mock_cluster, new_topic(mock_cluster), told, **certificate.properties)
        for _ in range(2):
            assert await write_page(writer)
        assert producers.call_count == 1
        certificate.replace()
        assert await write_page(writer)
        assert (producers.call_count, told) == (2, [])
        await writer.close()

    run(test)


def test_dead_letters(mock_cluster: str, certificate: Certificate, counted: Counted) -> None:
    async def test() -> None:
        topic, producers = new_topic(mock_cluster), counted(dead_letters_module, "Producer")
        writer = DeadLetterWriter(mock_cluster, certificate.properties, False, asyncio.get_running_loop())
        for count in (1, 2):
            assert await write_letter(writer, topic) == ""
            assert producers.call_count == count
            certificate.replace()
        writer.close()

    run(test)


def test_the_catalog(mock_cluster: str, certificate: Certificate, counted: Counted) -> None:
    async def test() -> None:
        events: asyncio.Queue[CatalogEvent] = asyncio.Queue()
        admins, loop = counted(catalog_module, "AdminClient"), asyncio.get_running_loop()
        catalog = TopicCatalog(CLUSTER, mock_cluster, certificate.properties, 600, events.put_nowait, loop)
        for count in (1, 2):
            async with asyncio.timeout(TIMEOUT):
                assert isinstance(await events.get(), CatalogUpdate)
            assert admins.call_count == count
            certificate.replace()
            await asyncio.to_thread(new_topic, mock_cluster)
            catalog.refresh_soon()
        catalog.close()

    run(test)


def test_an_admin_client_outlives_the_futures_that_it_returned(
    mock_cluster: str, certificate: Certificate, counted: Counted
) -> None:
    admins = counted(admin_module, "AdminClient")
    admin = LazyAdmin({"bootstrap.servers": mock_cluster, **certificate.properties})
    assert admin.connect(1.0)
    first = admin.client()
    answer = first.list_consumer_groups(request_timeout=TIMEOUT)
    certificate.replace()
    assert admin.client() is not first
    assert admins.call_count == 2
    del first
    assert answer.result(TIMEOUT).errors is not None
    assert admin.connect(2.0)
    admin.close()


def test_the_store_keeps_the_order_of_documents(
    mock_cluster: str, certificate: Certificate, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader continues, and reads nothing twice."""
    monkeypatch.setitem(topic_module._READER, "fetch.wait.max.ms", 10)
    monkeypatch.setattr(topic_module, "POLICY_TIMEOUT", 0.1)
    monkeypatch.setattr(topic_module, "POLL", 0.01)
    taken: list[int] = []
    take = topic_module.StoreTopic._take

    def noted(topic: topic_module.StoreTopic, message: Any) -> None:
        if message.error() is None:
            taken.append(message.offset())
        take(topic, message)

    monkeypatch.setattr(topic_module.StoreTopic, "_take", noted)

    def are_new(producers: Mock, consumers: Mock, changes: int) -> bool:
        return min(producers.call_count, consumers.call_count) > changes

    async def test() -> None:
        producers, consumers = counted(topic_module, "Producer"), counted(topic_module, "Consumer")
        consumers.close = Consumer.close
        async with opened(mock_cluster, new_topic(mock_cluster), properties=certificate.properties) as store:
            last = None
            for round_ in range(1, 6):
                certificate.replace()
                documents = [{"stored": 100 * round_ + number} for number in range(20)]
                before = await asyncio.gather(*(store.put(EPOCHS, "front", "g", each) for each in documents))
                assert before == [last, *documents[:-1]]
                last = documents[-1]
                await asyncio.to_thread(eventually, "new clients", partial(are_new, producers, consumers, round_))
            assert store.get(EPOCHS, "front", "g") == last
        assert taken == sorted(set(taken))
        assert len(taken) == 100

    run(test)


LOGIN = ("mesh", "changed")
WITH_SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "mesh"}


def test_the_journal_takes_another_login(mock_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that it has, and those that it makes."""

    async def test() -> None:
        producer = Mock()
        monkeypatch.setattr(journal_module, "Producer", Mock(return_value=producer))
        monkeypatch.setattr(journal_module.JournalWriter, "_find", lambda _: None)
        writer = writer_of(mock_cluster, "journal", [], **WITH_SASL, **{"sasl.password": "old"})
        writer._producers.get()
        writer.change_login(*LOGIN)
        producer.set_sasl_credentials.assert_not_called()
        for _ in range(2):
            writer._producers.get()
        producer.set_sasl_credentials.assert_called_once_with(*LOGIN)
        assert writer._properties["sasl.password"] == "changed"
        await writer.close()

    run(test)


def test_the_store_takes_another_login(mock_cluster: str, counted: Counted) -> None:
    async def test() -> None:
        producers, consumers = counted(topic_module, "Producer"), counted(topic_module, "Consumer")
        consumers.close = Consumer.close
        async with opened(mock_cluster, new_topic(mock_cluster)) as store:
            topic = store._topic
            await asyncio.to_thread(eventually, "a reader", lambda: topic._consumers.current is not None)
            taken = Mock()
            for clients in (topic._producers, topic._consumers):
                clients.current = Mock(wraps=clients.current, set_sasl_credentials=taken)
            store.change_login(*LOGIN)
            await asyncio.to_thread(eventually, "both have taken it", lambda: taken.call_count == 2)
            assert taken.call_args_list == [(LOGIN, {}), (LOGIN, {})]
            assert topic._properties["sasl.password"] == "changed"
        assert producers.called

    run(test)


def test_another_login_does_not_wait_for_the_reader_of_the_store(mock_cluster: str) -> None:
    """confluent-kafka lets one thread at a time into a consumer, and the reader is there nearly always."""

    async def test() -> None:
        async with opened(mock_cluster, new_topic(mock_cluster)) as store:
            await asyncio.to_thread(eventually, "a reader", lambda: store._topic._consumers.current is not None)
            await asyncio.wait_for(asyncio.to_thread(store.change_login, *LOGIN), TIMEOUT)
            await asyncio.to_thread(eventually, "the reader has it", lambda: not store._topic._consumers._logins)
            await store.put(EPOCHS, "front", "g", {"stored": 1})

    run(test)


@pytest.mark.parametrize("kind", ["raw", "librdkafka"])
def test_an_engine_takes_another_login(
    mock_cluster: str, monkeypatch: pytest.MonkeyPatch, counted: Counted, kind: EngineName
) -> None:
    """Its consumer, which stays in the group, gets it in its own thread. Spans are read by another client."""
    taken: list[tuple[str, tuple[str, ...]]] = []

    class NotedConsumer(Consumer):
        def set_sasl_credentials(self, *login: str) -> None:
            taken.append((threading.current_thread().name.partition(" ")[0], login))

    monkeypatch.setattr(consumer_thread_module, "Consumer", NotedConsumer)
    readers = counted(reader_thread_module, "Consumer")
    topic = new_topic(mock_cluster)
    produce(mock_cluster, topic, 10)

    async def test() -> None:
        async with engine(mock_cluster, new_name("group"), topic, reads_with=kind) as running:
            await running.assigned()
            for login in (None, LOGIN):
                if login is not None:
                    running.engine.change_login(*login)
                await running.reread(source(topic), Span(0, 1))
            await asyncio.to_thread(eventually, "the consumer has it", lambda: taken)
        assert taken == [("consumer", LOGIN)]
        passwords = [call.args[0].get("sasl.password") for call in readers.call_args_list]
        assert passwords == ([None, "changed"] if kind == "librdkafka" else [])

    run(test)
