"""Pages of the journal, written to librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from confluent_kafka import Producer

from mesh.journal.pages import Page, decode
from mesh.tasks import OwnedTask, TaskName, reporting
from mesh.upstream.writers.journal import JournalWriter
from tests.planted import Planting, plants
from tests.test_tasks import Reports
from tests.upstream.harness import TIMEOUT, new_name, run
from tests.upstream.writers.test_dead_letters import read_one


def page_of(event: str = "delivered") -> Page:
    page = Page(1_700_000_000_000)
    page.add(event, page.begun + 5, ("v", "g"), ("eu", "orders", 1), ("m", "c", "h", ""), 10, 19, 1, page.begun)
    return page


def writer_of(mock_cluster: str, topic: str, told: list[str], **properties: str) -> JournalWriter:
    loop = asyncio.get_running_loop()
    return JournalWriter(mock_cluster, properties, topic, False, "process", "run", told.append, loop)


async def write(writer: JournalWriter, **more: Any) -> bool:
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    writer.write(page_of(), more.get("dropped", 0), 0, more.get("is_last", False), ended.set_result)
    async with asyncio.timeout(TIMEOUT):
        return await ended


def test_a_page_is_written_and_read(mock_cluster: str) -> None:
    async def test() -> None:
        topic, told = new_name("journal"), list[str]()
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
        writer = writer_of(mock_cluster, topic, told)
        assert await write(writer, dropped=7)
        message = read_one(mock_cluster, topic)
        value = message.value()
        assert isinstance(value, bytes)
        page = decode(value)
        assert (page.process, page.run, page.sequence, page.dropped) == ("process", "run", 0, 7)
        assert message.key() == b"run"
        (event,) = page
        assert (event.first, event.last, event.produced) == (10, 19, 1_700_000_000_000)
        await writer.close()
        assert told == []

    run(test)


def test_a_topic_that_is_not_there_is_told_and_looked_for_again(mock_cluster: str) -> None:
    async def test() -> None:
        topic, told = new_name("nowhere"), list[str]()
        writer = writer_of(mock_cluster, topic, told)
        assert not await write(writer)
        assert not await write(writer)
        assert told == [f"the topic {topic} does not exist, and create is false"], "once"
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
        assert await write(writer)
        await writer.close()

    run(test)


def test_properties_that_librdkafka_refuses_are_told() -> None:
    async def test() -> None:
        told = list[str]()
        writer = writer_of("127.0.0.1:1", "t", told, **{"security.protocol": "carrier pigeon"})
        assert not await write(writer)
        assert not await write(writer), "the thread lives on"
        assert "security.protocol" in told[0]
        await writer.close()

    run(test)


@plants(TaskName.JOURNAL, at=(1,))
def test_an_exception_that_nobody_has_foreseen_costs_one_page(mock_cluster: str, planting: Planting) -> None:
    async def test() -> None:
        topic, told, problem = new_name("journal"), list[str](), planting.problem
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
        with planting.into_call(ValueError) as reports:
            writer = writer_of(mock_cluster, topic, told)
            produce = writer._produce
            writer._produce = planting.throw  # type: ignore[method-assign]
            assert not await write(writer)
            writer._produce = produce  # type: ignore[method-assign]
            assert await write(writer)
            await writer.close()
        is_foreseen = isinstance(problem, ValueError)
        assert told == [str(problem) if is_foreseen else repr(problem)]
        assert reports.failures == ([] if is_foreseen else [(OwnedTask(TaskName.JOURNAL), problem, 0.0)])
        assert reports.working == ([] if is_foreseen else [OwnedTask(TaskName.JOURNAL)])

    run(test)


def test_a_callback_that_raises_ends_no_thread(mock_cluster: str) -> None:
    async def test() -> None:
        topic, reports = new_name("journal"), Reports()
        Producer({"bootstrap.servers": mock_cluster}).list_topics(topic, timeout=TIMEOUT)  # creates it
        with reporting(reports):
            writer = writer_of(mock_cluster, topic, [])
            ended, raised = writer._ended, threading.Event()

            def end(*_: object) -> None:
                raised.set()
                raise KeyError("relay")

            writer._ended = end  # type: ignore[method-assign,assignment]
            writer.write(page_of(), 0, 0, False, lambda _: None)
            assert await asyncio.to_thread(raised.wait, TIMEOUT)
            writer._ended = ended  # type: ignore[method-assign]
            assert await write(writer)
            await writer.close()
        assert [task.name for task, _, _ in reports.failures] == [TaskName.THREAD]

    run(test)
