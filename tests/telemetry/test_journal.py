"""From notes to pages, with a writer that ends when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mesh.journal.pages import Page, ReadPage, decode
from mesh.pool.common.delivery_events import DeliveryEvent, DeliveryEventType, Holder
from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.telemetry import journal as journal_module
from mesh.telemetry.journal import FULL, Journal
from mesh.telemetry.metrics import Metrics
from tests.telemetry.test_metrics import exposed

SOURCE = UpstreamPartition(ClusterName("eu"), TopicName("orders"), 3)
NEVER = 10_000.0


@dataclass
class Writing:
    """A writer: the given pages, and the prepared ends of writes."""

    pages: list[ReadPage] = field(default_factory=list)
    ends: list[Callable[[bool], None]] = field(default_factory=list)
    is_closed: bool = False
    has_written: asyncio.Event = field(default_factory=asyncio.Event)

    def change_login(self, username: str, password: str) -> None:
        raise NotImplementedError

    def write(self, page: Page, dropped: int, dropped_since: int, is_last: bool, ended: Callable[[bool], None]) -> None:
        self.pages.append(decode(page.encode("p", "r", len(self.pages), dropped, dropped_since, is_last)))
        self.ends.append(ended)
        self.has_written.set()

    async def close(self) -> None:
        self.is_closed = True


def note(first: int = 0) -> DeliveryEvent:
    return DeliveryEvent(
        GroupId("shop"), DeliveryEventType.DELIVERED, SOURCE, first, first + 4, Holder("m-1", "m", "10.0.0.1"), 1, 17
    )


def results(metrics: Metrics) -> dict[str, float]:
    return {result: value for (result,), value in exposed(metrics, "kafka_mesh_journal_events_total").items()}


def test_a_page_is_written_when_its_time_has_come() -> None:
    async def test() -> None:
        writing, metrics = Writing(), Metrics()
        journal = Journal(writing, metrics, asyncio.get_running_loop(), 0.01, 100)
        assert results(metrics) == {"dropped": 0}
        journal.add("v", note())
        journal.add("v", note(5))
        assert not writing.pages
        async with asyncio.timeout(30):
            await writing.has_written.wait()
        (page,) = writing.pages
        first, second = page
        assert (first.event, first.virtual_cluster, first.group, first.produced) == ("delivered", "v", "shop", 17)
        assert (first.cluster, first.topic, first.partition, first.first, first.last) == ("eu", "orders", 3, 0, 4)
        assert (first.member, first.client_id, first.host, first.lease) == ("m-1", "m", "10.0.0.1", "")
        assert second.first == 5
        writing.ends[0](True)
        assert results(metrics) == {"written": 2, "dropped": 0}

    asyncio.run(test())


def test_a_full_page_is_written_at_once() -> None:
    async def test() -> None:
        writing = Writing()
        journal = Journal(writing, Metrics(), asyncio.get_running_loop(), NEVER, 1 << 20)
        for number in range(FULL + 1):
            journal.add("v", note(number))
        assert [len(list(page)) for page in writing.pages] == [FULL]
        await journal.close()
        assert [len(list(page)) for page in writing.pages] == [FULL, 1]
        assert [page.is_last for page in writing.pages] == [False, True]
        assert writing.is_closed

    asyncio.run(test())


def test_what_cannot_be_kept_is_dropped_and_that_is_told_in_the_next_page() -> None:
    async def test() -> None:
        writing, metrics = Writing(), Metrics()
        journal = Journal(writing, metrics, asyncio.get_running_loop(), NEVER, 3)
        for number in range(5):
            journal.add("v", note(number))
        journal.flush()
        journal.add("v", note(5))  # three are in flight
        assert results(metrics) == {"dropped": 3}
        writing.ends[0](True)
        journal.add("v", note(6))
        journal.flush()
        assert [len(list(page)) for page in writing.pages] == [3, 1]
        assert [page.dropped for page in writing.pages] == [2, 1]
        assert writing.pages[0].dropped_since <= writing.pages[1].dropped_since
        assert writing.pages[0].dropped_since > 0
        assert results(metrics) == {"dropped": 3, "written": 3}

    asyncio.run(test())


def test_a_page_that_was_not_taken_counts_as_dropped_with_what_it_told() -> None:
    async def test() -> None:
        writing, metrics = Writing(), Metrics()
        journal = Journal(writing, metrics, asyncio.get_running_loop(), NEVER, 2)
        for number in range(3):
            journal.add("v", note(number))
        journal.flush()
        writing.ends[0](False)
        await journal.close()
        assert [page.dropped for page in writing.pages] == [1, 3]
        assert writing.pages[1].dropped_since == writing.pages[0].dropped_since
        assert results(metrics) == {"dropped": 3}

    asyncio.run(test())


@dataclass
class Clock:
    """A clock that a test sets."""

    milliseconds: int = 1_000

    def time_ns(self) -> int:
        return self.milliseconds * 1_000_000


def test_the_time_of_dropped_events_is_that_of_the_earliest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(journal_module, "time", clock)

    async def test() -> None:
        writing = Writing()
        journal = Journal(writing, Metrics(), asyncio.get_running_loop(), NEVER, 1)
        journal.add("v", note())
        journal.flush()
        clock.milliseconds = 2_000
        journal.add("v", note(1))  # dropped: one is in flight
        writing.ends[0](False)  # the page before it is lost only now
        await journal.close()
        assert (writing.pages[1].dropped, writing.pages[1].dropped_since) == (2, 1_000)

    asyncio.run(test())
