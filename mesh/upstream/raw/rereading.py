"""Rereads spans beside the normal reading, over the connections that park nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

from mesh.records.batch import CorruptBatch, RecordBatch
from mesh.records.runs import fitting, split
from mesh.records.spans import Span, UpstreamPartition
from mesh.tasks import finite
from mesh.upstream.engine import EngineEvent, Reread, RereadToken
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes, UpstreamNode
from mesh.upstream.raw.log_bounds import EARLIEST, LATEST, offset_of
from mesh.upstream.raw.reading import NotTheLeader, OutOfRange, Progress, Reading, outcome_of
from mesh.wire.client import messages
from mesh.wire.client.fetch import (
    FIRST_WITH_TOPIC_IDS,
    FetchFrom,
    decode_fetch_answer,
    fetch_request,
    version_for,
)
from mesh.wire.errors import ProtocolError

PIECE_BYTES: Final = 256 << 10
RETRY_DELAY: Final = 0.1
GIVE_UP: Final = 15.0
"""Seconds without progress after which a span counts as unreadable for now."""


class Rereading:
    """The rereading of spans. The spans of one broker take turns, piece by piece, so at most one piece for each broker
    is in flight. A span without a leader, or with a broker that does not answer, delays no other. lost: called with a
    reading whose node is not the leader, or fails."""

    def __init__(
        self,
        cluster: Nodes,
        readings: dict[UpstreamPartition, Reading],
        read_committed: bool,
        report: Callable[[EngineEvent], None],
        lost: Callable[[Reading, tuple[int, int] | None], None],
    ) -> None:
        self._cluster = cluster
        self._readings = readings
        self._read_committed = read_committed
        self._report = report
        self._lost = lost
        self._spans: asyncio.Queue[tuple[RereadToken, UpstreamPartition, Span]] = asyncio.Queue()
        self._turns: WeakKeyDictionary[UpstreamNode, asyncio.Lock] = WeakKeyDictionary()

    def read(self, token: RereadToken, source: UpstreamPartition, span: Span) -> None:
        self._spans.put_nowait((token, source, span))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(finite(self._answer, *await self._spans.get()))

    async def _answer(self, token: RereadToken, source: UpstreamPartition, span: Span) -> None:
        error, log_start = await self._read(token, source, span)
        self._report(Reread(source, token, (), True, error, log_start))

    async def _read(self, token: RereadToken, source: UpstreamPartition, span: Span) -> tuple[str, int]:
        """Reads a span. Returns the reason of an early end, "" for none, and the start of the log, 0 if it was not
        asked for."""
        position, log_start = span.first, 0
        reason = f"nothing came within {GIVE_UP:g} s"
        loop = asyncio.get_running_loop()
        progress_at = loop.time()
        while loop.time() - progress_at < GIVE_UP:
            reading = self._readings.get(source)
            if reading is None:
                return "the partition is not ours any more", log_start
            node = self._cluster.nodes.get(reading.leader)
            if node is None:
                await asyncio.sleep(RETRY_DELAY)
                continue
            try:
                waits_since = loop.time()
                async with self._turns.setdefault(node, asyncio.Lock()):
                    progress_at += loop.time() - waits_since  # waiting for other spans is not a lack of progress
                    after, is_end, begins = await self._piece(reading, node, position, token, span)
            except (Unreachable, ProtocolError, CorruptBatch) as problem:
                reason = str(problem)
                self._lost(reading, None)
                await asyncio.sleep(RETRY_DELAY)
                continue
            log_start = max(log_start, begins)
            if after > span.last or is_end:
                return "", log_start
            if after > position:
                position, progress_at = after, loop.time()
            else:
                await asyncio.sleep(RETRY_DELAY)
        return reason, log_start

    async def _piece(
        self, reading: Reading, node: UpstreamNode, position: int, token: RereadToken, span: Span
    ) -> tuple[int, bool, int]:
        """Reads a piece. Returns the next position, whether the span is finished, and the start of the log, 0 if it was
        not asked for."""
        source = reading.source
        served = (await node.request_link.versions()).get(messages.FETCH)
        version = version_for(served, reading.topic_id is not None)
        if version is None:
            raise Unreachable(f"the broker is too old, or too new: it serves Fetch {served}")
        by_id = version >= FIRST_WITH_TOPIC_IDS and reading.topic_id is not None
        name: str | UUID = reading.topic_id if by_id and reading.topic_id is not None else source.topic
        request = fetch_request(
            version,
            {name: [FetchFrom(source.partition, reading.epoch, position, PIECE_BYTES)]},
            max_wait_ms=10,
            max_bytes=PIECE_BYTES,
            read_committed=self._read_committed,
        )
        answer = decode_fetch_answer(await node.request_link.request(request))
        for fetched in answer.partitions:
            outcome = outcome_of(fetched, position, self._read_committed, copied=True)
            match outcome:
                case Progress(batches, after):
                    self._deliver(source, token, span, batches)
                    if after == position and not batches:
                        return await self._at_end(reading, node, position, span)
                    return after, False, 0
                case OutOfRange():
                    return await self._at_end(reading, node, position, span)
                case NotTheLeader(newer):
                    self._lost(reading, newer)
                case _:
                    pass
        return position, False, 0

    async def _at_end(self, reading: Reading, node: UpstreamNode, position: int, span: Span) -> tuple[int, bool, int]:
        """Handles the end of a log, or a start above the position. Returns as `_piece`. A request for the end gets an
        error until the leader knows it (KIP-207)."""
        low = await offset_of(reading.source, node, reading.epoch, EARLIEST)
        high = await offset_of(reading.source, node, reading.epoch, LATEST)
        if low is None or high is None:
            return position, False, 0
        after = max(position, low)
        return after, after >= min(span.last + 1, high), low

    def _deliver(
        self, source: UpstreamPartition, token: RereadToken, span: Span, batches: tuple[RecordBatch, ...]
    ) -> None:
        # Batches are whole: the caller cuts them to the span, unless they are damaged.
        within = tuple(_begun_within(batch, span) for batch in batches if batch.first <= span.last)
        if within:
            self._report(Reread(source, token, within, False))


def _begun_within(run: RecordBatch, span: Span) -> RecordBatch:
    """Returns the batches of a run that begin within the span."""
    count = fitting(run, len(run.data), span.last - run.first + 1)
    return split(run, count)[0] if 0 < count < len(run.marks) else run
