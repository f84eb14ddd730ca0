"""What librdkafka logs: all of it through standard logging, and not too much."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mesh.records.spans import Span
from mesh.upstream import librdkafka_log
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, TopicCatalog
from mesh.upstream.engine import RereadToken, SourceDown
from mesh.upstream.librdkafka_log import AT_MOST_EVERY, LibrdkafkaLog
from mesh.upstream.librdkafka_properties import connection_properties, consumer_properties, reader_properties
from tests.upstream.harness import CLUSTER, engine, new_name, run, source
from tests.upstream.test_librdkafka_properties import options as options_of

NOWHERE = "127.0.0.1:1"
TEMPLATE = "%s [%s] %s"


class Bed:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="librdkafka")
        self.caplog = caplog
        self.now = 0.0
        self.log = LibrdkafkaLog(logging.getLogger("librdkafka"), lambda: self.now)

    def line(self, facility: str, text: str, level: int = logging.ERROR) -> None:
        self.log.log(level, TEMPLATE, facility, "rdkafka#consumer-1", text)

    @property
    def written(self) -> list[tuple[int, str]]:
        return [(record.levelno, record.getMessage().split("] ")[1]) for record in self.caplog.records]


def test_levels(caplog: pytest.LogCaptureFixture) -> None:
    bed = Bed(caplog)
    bed.line("FAIL", "refused")
    bed.line("ASSIGN", "odd")
    bed.line("ASSIGN", "odder", logging.CRITICAL)
    bed.line("TERM", "telling", logging.INFO)
    bed.line("FETCH", "chatty", logging.DEBUG)
    assert bed.written == [
        (logging.DEBUG, "refused"),
        (logging.WARNING, "odd"),
        (logging.WARNING, "odder"),
        (logging.INFO, "telling"),
        (logging.DEBUG, "chatty"),
    ]


def test_the_same_line_once_a_minute_whatever_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    bed = Bed(caplog)
    for number in range(10):
        bed.line("ASSIGN", f"{number} of them")
        bed.line("ASSIGN", "another")
    bed.now += AT_MOST_EVERY
    bed.line("ASSIGN", "99 of them")
    assert [text for _, text in bed.written] == ["0 of them", "another", "99 of them"]


def test_what_is_remembered_is_bounded(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka_log, "MOST_REMEMBERED", 2)
    bed = Bed(caplog)
    for text in "abcab":
        bed.line("ASSIGN", text)
    assert [text for _, text in bed.written] == list("abcab")


class Clients(logging.Handler):
    """The clients that have written, and their levels."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.levels: set[int] = set()
        self._loop = loop
        self._told = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.names.add(record.getMessage().split("[")[1])
        self.levels.add(record.levelno)
        self._loop.call_soon_threadsafe(self._told.set)

    async def until(self, count: int) -> None:
        while len(self.names) < count:
            self._told.clear()
            await self._told.wait()


def test_every_client_of_an_engine_has_a_logger_of_its_cluster_and_group() -> None:
    options = options_of({"client.id": "theirs"})
    for properties in (consumer_properties(options), reader_properties(options)):
        for made in (properties, connection_properties(properties)):
            assert made["logger"]._names == {"cluster": options.cluster, "group": options.group_id}
    assert "logger" in connection_properties({})


def test_an_outage_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """A consumer, a reader and a catalog, all at a port without a listener; events report each of them."""

    async def test() -> None:
        told: asyncio.Queue[CatalogEvent] = asyncio.Queue()
        clients = Clients(asyncio.get_running_loop())
        logger = logging.getLogger("librdkafka")
        logger.addHandler(clients)
        logger.setLevel(logging.DEBUG)
        try:
            catalog = TopicCatalog(CLUSTER, NOWHERE, {}, 600, told.put_nowait, asyncio.get_running_loop())
            async with engine(NOWHERE, new_name("group"), "any", reads_with="librdkafka") as running:
                running.engine.reread(RereadToken(1), source("any"), Span(0, 1))
                await running.next(SourceDown)
                async with asyncio.timeout(30):
                    assert isinstance(await told.get(), CatalogUnreachable)
                    await clients.until(3)
            catalog.close()
        finally:
            logger.setLevel(logging.NOTSET)
            logger.removeHandler(clients)
        assert clients.levels == {logging.DEBUG}

    run(test)
    assert "rdkafka" not in capfd.readouterr().err
