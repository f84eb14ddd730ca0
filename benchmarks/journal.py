"""`python -m benchmarks.journal`: what part of the mesh's CPU its delivery journal takes, to a tenth of a per cent.

The CPU of a whole mesh differs by a tenth from one run to the next, so a journal that costs a hundredth of it cannot be
seen there. It is worked out instead: how many events a GB leaves at full rate is counted in the journal of a real mesh;
what an event costs is the difference between steps of a pool that keeps a journal and the same steps of one that keeps
none, in CPU time of this process with all of its threads. The steps go the way they go in the mesh: the notes of the
pool, the server's dispatch of effects, `mesh.telemetry.journal`, Avro, lz4, librdkafka's producer. The broker is
another process. Variants take turns, and the brackets hold 95 of 100 bootstrap samples of their medians.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio
import typer
from confluent_kafka import Producer

from benchmarks.bed import TOPICS, Bed
from benchmarks.clients import consume
from benchmarks.core import Core
from benchmarks.machine import cpu_seconds, describe
from mesh.journal.pages import Page
from mesh.pipelines.audit.kafka import Stretch, logs, read_pages
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.runtime.pool.reports import Reports
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.journal import DeliveryLog, Journal, Writer
from mesh.telemetry.metrics import Metrics
from mesh.upstream.writers.journal import JournalWriter
from tests.integration.processes import eventually

TOPIC, GROUP = "kafka-mesh.journal", GroupId("shop")
PARTITIONS = 6
STAGES = ("without", "notes", "pages", "written")
"""Each stage does more than the last one: `notes` are made and carried out, `pages` filled, Avro `written`."""
GB = 1e9
Interval = tuple[float, float, float]
"""Median, and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class FullRate:
    """A mesh as fast as it goes. cpu: seconds a GB, of its process. events: a GB. pages: events of one."""

    topic: str
    cpu: float
    events: float
    pages: float


# Events of a GB


def full_rate(folder: Path, topic: str, rounds: int, scale: float) -> FullRate:
    """One consumer takes the whole topic, `rounds` times; needs Java 17, Maven and kcat."""
    bed = Bed(folder, scale)
    try:
        bed.fill(TOPICS[topic])
        with bed.mesh(journal=True) as mesh:
            began = sum(map(cpu_seconds, mesh.pids))
            records = sum(consume("kcat", bed, [mesh], TOPICS[topic]).records for _ in range(rounds))
            cpu = sum(map(cpu_seconds, mesh.pids)) - began
            found = Counter[str]()

            def is_complete() -> bool:
                found.clear()
                found.update(_events(bed.broker.bootstrap_servers))
                return found["offsets"] >= records

            eventually("the journal has every delivery", is_complete, timeout=60, interval=1)
    finally:
        bed.close()
    size = records * TOPICS[topic].size / GB
    return FullRate(topic, cpu / size, found["events"] / size, found["events"] / found["pages"])


def _events(servers: str) -> Counter[str]:
    properties = {"bootstrap.servers": servers}
    found = Counter[str]()
    for (topic, partition), log in logs(properties, [TOPIC]).items():
        for page in read_pages(properties, Stretch("", topic, partition, log.start, log.end)):
            found["pages"] += 1
            for each in page:
                found["events"] += 1
                found["offsets"] += each.last - each.first + 1 if each.event == "delivered" else 0
    return found


# CPU of an event


class _Told(PoolRuntime):
    """The part of the runtime that carries out a delivery event."""

    def __init__(self, journal: DeliveryLog | None) -> None:
        self._reports = Reports("bench", Metrics(), journal)


class Steps(Core):
    """A pool with one member that takes a batch of each partition and commits it, again and again."""

    def __init__(self, journal: DeliveryLog | None, keeps: bool) -> None:
        self.notes = 0
        self._told: _Told | None = None  # setting up is not reported
        super().__init__(PARTITIONS, journal=keeps)
        self._told = _Told(journal) if keeps else None
        (self._client,) = self.join(GROUP, 1)
        self.assign(GROUP)

    def do(self, effects: list[Effect]) -> None:
        if self._told is not None:
            for effect in effects:
                if isinstance(effect, DeliveryEvent):
                    self.notes += 1
                    self._told._do(effect)
        super().do(effects)

    def work(self) -> None:
        for partition in range(PARTITIONS):
            self.receive(GROUP, partition)
        self.fetch(self._client)
        for partition in range(PARTITIONS):
            self.commit(self._client, partition)
        self.idle.clear()


EVENTS_OF_WORK = 2 * PARTITIONS


class _Counting:
    """A writer that knows when everything is written; `beneath` is none where pages are thrown away."""

    def __init__(self, beneath: Writer | None) -> None:
        self._beneath = beneath
        self._outstanding = 0
        self._is_written = asyncio.Event()

    def change_login(self, username: str, password: str) -> None:
        raise NotImplementedError

    def write(self, page: Page, dropped: int, dropped_since: int, is_last: bool, ended: Callable[[bool], None]) -> None:
        if self._beneath is None:
            ended(True)
            return

        def told(is_written: bool) -> None:
            assert is_written
            self._outstanding -= 1
            if not self._outstanding:
                self._is_written.set()
            ended(is_written)

        self._outstanding += 1
        self._is_written.clear()
        self._beneath.write(page, dropped, dropped_since, is_last, told)

    async def until_written(self) -> None:
        if self._outstanding:
            await self._is_written.wait()

    async def close(self) -> None:
        if self._beneath is not None:
            await self._beneath.close()


async def costs(servers: str, events: int, page: int, repetitions: int) -> dict[str, list[float]]:
    """Microseconds of CPU of an event's part of a step, at each stage. page: events of one."""
    loop = asyncio.get_running_loop()
    beneath = JournalWriter(servers, {}, TOPIC, False, "bench", "run", _refuse, loop)
    writers = {"pages": _Counting(None), "written": _Counting(beneath)}
    journals = {
        name: Journal(writer, Metrics(), loop, interval=1e6, limit=1_000_000) for name, writer in writers.items()
    }
    steps = {name: Steps(journals.get(name), name != "without") for name in STAGES}
    found: dict[str, list[float]] = {name: [] for name in STAGES}
    units = events // EVENTS_OF_WORK
    gc.collect()
    gc.freeze()  # as in the mesh
    for number in range(repetitions + 1):
        for name in STAGES:
            began = time.process_time()
            await repeat(steps[name], journals.get(name), units, max(page // EVENTS_OF_WORK, 1))
            if name in writers:
                await writers[name].until_written()
            cost = (time.process_time() - began) / (units * EVENTS_OF_WORK) * 1e6
            if number:  # the first round makes the topic known, and so on
                found[name].append(cost)
    gc.unfreeze()
    for name, each in steps.items():
        made = (repetitions + 1) * units * EVENTS_OF_WORK
        assert name == "without" or 0 <= each.notes - made <= 2 * PARTITIONS, "and those of the assignment"
    for journal in journals.values():
        await journal.close()
    return found


async def repeat(steps: Steps, journal: Journal | None, units: int, units_of_a_page: int) -> None:
    for number in range(1, units + 1):
        steps.work()
        if number % units_of_a_page == 0:
            if journal is not None:
                journal.flush()
            await asyncio.sleep(0)  # the writer's thread reports to the event loop
    if journal is not None:
        journal.flush()


def _refuse(problem: str) -> None:
    raise AssertionError(problem)


@contextmanager
def mock_broker() -> Iterator[str]:
    """librdkafka's mock cluster in a separate process; its address. The topic exists."""
    command = [sys.executable, "-m", "benchmarks.journal", "--broker"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        yield child.stdout.readline().strip()
        child.stdin.close()


def _be_a_broker() -> None:
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = host.list_topics(timeout=10).brokers.values()
    host.list_topics(TOPIC, timeout=10)  # creates it
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


# Results


def difference(one: Sequence[float], other: Sequence[float]) -> Interval:
    """The difference of the medians, with the interval of 95 of 100 bootstrap samples; rounds stay pairs."""
    pairs = [after - before for before, after in zip(one, other, strict=True)]
    chosen = random.Random(1)
    medians = sorted(statistics.median(chosen.choices(pairs, k=len(pairs))) for _ in range(2_000))
    return statistics.median(pairs), medians[50], medians[-51]


def said(value: Interval, unit: str) -> str:
    middle, least, most = value
    return f"{middle:.2f} [{least:.2f}..{most:.2f}] {unit}"


def main(
    events: Annotated[int, typer.Option(min=100, help="Of each turn: many short ones are disturbed less.")] = 1_200,
    repetitions: Annotated[int, typer.Option(min=2, help="Turns of each stage.")] = 150,
    page: Annotated[int, typer.Option(min=1, help="Events of a page, where no mesh is asked.")] = 500,
    topic: Annotated[list[str], typer.Option(help="Read by a real mesh; none: only an event's cost.")] = ["s1k"],  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, help="How often the topic is read.")] = 3,
    scale: Annotated[float, typer.Option(min=0.01, max=10, help="How much of its records.")] = 0.4,
    broker: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Events of a GB at full rate, CPU of an event, and what part of the mesh's CPU that is."""
    if broker:
        _be_a_broker()
        return
    print(", ".join(describe().values()))
    with tempfile.TemporaryDirectory() as folder:
        rates = [full_rate(Path(folder) / name, name, rounds, scale) for name in topic if name != "none"]
    for size in {round(rate.pages) for rate in rates} or {page}:
        with mock_broker() as servers:
            found = anyio.run(costs, servers, events, size, repetitions, backend_options={"use_uvloop": True})
        for before, name in itertools.pairwise(STAGES):
            print(f"{name}: {said(difference(found[before], found[name]), 'us an event')}")
        whole = difference(found["without"], found["written"])
        print(f"an event, pages of {size}: {said(whole, 'us of CPU')}")
        for rate in rates:
            if round(rate.pages) == size:
                middle, least, most = (each * rate.events / 1e6 / rate.cpu * 100 for each in whole)
                print(f"{rate.topic}: {rate.events:,.0f} events and {rate.cpu:.2f} s of CPU a GB")
                print(f"{rate.topic}: {said((middle, least, most), '% of the CPU of the mesh')}")


if __name__ == "__main__":
    typer.run(main)
