"""An engine that keeps its events, with deadlines instead of sleeps."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import uvloop
from confluent_kafka import Producer

from mesh.records.batch import RecordBatch
from mesh.records.decode import DecodedRecord, decode_records
from mesh.records.spans import ClusterName, CommitPosition, Span, TopicName, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    Committed,
    CommitToken,
    EndReached,
    Engine,
    EngineEvent,
    EngineName,
    EngineOptions,
    EventBatch,
    Received,
    Reread,
    RereadToken,
)
from mesh.upstream.engine_choice import make_engine
from mesh.upstream.links.buffers import ReceiveBuffers

CLUSTER = ClusterName("eu")
TIMEOUT = 30.0
_SWITCH = os.environ.get("KAFKA_MESH_TEST_ENGINE")
ENGINE: EngineName = "librdkafka" if _SWITCH == "librdkafka" else "raw"
"""The engine of tests that concern any engine."""

Event = TypeVar("Event", bound=EngineEvent)
Value = TypeVar("Value")
_numbers = itertools.count()


def new_name(kind: str) -> str:
    """A topic or group that no other test uses."""
    return f"{kind}-{next(_numbers)}"


def source(topic: str, partition: int = 0) -> UpstreamPartition:
    return UpstreamPartition(CLUSTER, TopicName(topic), partition)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs it on the mesh's event loop, whose transports are not asyncio's own classes."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())


def one_by_one(event: EngineEvent) -> tuple[EngineEvent, ...]:
    """The events of one report, one by one."""
    return event.events if isinstance(event, EventBatch) else (event,)


class RunningEngine:
    """An engine and its events."""

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        *,
        instance_id: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        properties: Mapping[str, str] | None = None,
        buffer_bytes: int = 1 << 20,
        session_timeout_ms: int | None = None,
        reads_with: EngineName = ENGINE,
    ) -> None:
        self.events: list[EngineEvent] = []
        self._told = asyncio.Event()
        self._tokens = itertools.count(1)
        self.engine: Engine = make_engine(
            reads_with,
            EngineOptions(
                CLUSTER,
                bootstrap_servers,
                {"topic.metadata.refresh.interval.ms": "500", "heartbeat.interval.ms": "300", **(properties or {})},
                group,
                instance_id,
                start,
                "read_committed",
                buffer_bytes,
                session_timeout_ms,
            ),
            self._deliver,
            ReceiveBuffers(64 << 20),
        )

    def _deliver(self, event: EngineEvent) -> None:
        self.events += one_by_one(event)
        self._told.set()

    async def until(self, condition: Callable[[], Value]) -> Value:
        """The first true value; looks again after each event."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while not (value := condition()):
                    self._told.clear()
                    await self._told.wait()
        except TimeoutError:
            told = "\n".join(str(event)[:300] for event in self.events[-20:])
            raise AssertionError(f"not within {TIMEOUT} s; told last:\n{told}") from None
        return value

    async def next(self, kind: type[Event]) -> Event:
        """The first event of this kind; it is forgotten with those before it."""

        def find() -> list[Event]:
            return [event for event in self.events if isinstance(event, kind)]

        event = (await self.until(find))[0]
        del self.events[: self.events.index(event) + 1]
        return event

    def all(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def assigned(self) -> dict[int, AssignedPartition]:
        """The next assignment, by partition number."""
        return {each.partition.partition: each for each in (await self.next(Assigned)).partitions}

    async def ends(self, partitions: int = 1) -> None:
        """Waits until so many partitions are read to their ends."""
        await self.until(lambda: len({event.partition for event in self.all(EndReached)}) >= partitions)

    async def commit(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> Mapping[UpstreamPartition, int]:
        token = CommitToken(next(self._tokens))
        self.engine.commit(token, positions)
        answers = await self.until(lambda: [event for event in self.all(Committed) if event.token == token])
        return answers[0].errors

    def records(self, topic: str, partition: int = 0) -> list[DecodedRecord]:
        """The received records of a partition that are not forgotten."""
        return [
            record
            for event in self.all(Received)
            if event.partition == source(topic, partition)
            for batch in event.batches
            for record in decode_records(batch)
            if batch.first <= record.offset <= batch.last
        ]

    async def reread(self, partition: UpstreamPartition, span: Span) -> tuple[list[Reread], list[RecordBatch]]:
        """All events of a reread, and its batches."""
        self.events = [event for event in self.events if not isinstance(event, Reread)]
        self.engine.reread(RereadToken(1), partition, span)
        await self.until(lambda: any(event.complete for event in self.all(Reread)))
        pieces = self.all(Reread)
        assert [piece.complete for piece in pieces] == [*[False] * (len(pieces) - 1), True]
        assert all(piece.token == 1 for piece in pieces)
        return pieces, [batch for piece in pieces for batch in piece.batches]


@asynccontextmanager
async def engine(bootstrap_servers: str, group: str, *topics: str, **settings: Any) -> AsyncIterator[RunningEngine]:
    running = RunningEngine(bootstrap_servers, group, **settings)
    running.engine.subscribe(frozenset(TopicName(topic) for topic in topics))
    try:
        yield running
    finally:
        await running.engine.close({})


def produce(bootstrap_servers: str, topic: str, count: int, partition: int = 0, **properties: Any) -> None:
    """Records with their numbers as values, stored when this returns."""
    always = {"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer({**always, **properties})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0
