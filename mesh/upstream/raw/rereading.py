"""Spans are read again beside the normal reading, over the connections that park nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

from mesh.records.batch import Batch, CorruptBatch
from mesh.records.runs import fitting, split
from mesh.records.spans import Span, UpstreamPartition
from mesh.upstream.engine import EngineEvent, Reread, RereadToken
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Node, Nodes
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
REST: Final = 0.1
GIVE_UP: Final = 15.0
"""Seconds without any progress after which a span is reported as not readable now."""


class Rereading:
    """Spans of one broker take turns, piece by piece: so no more than a piece for each broker is under way. One that
    has no leader, or whose broker does not answer, holds up none of the others. lost: told of a leader that is none."""

    def __init__(
        self,
        cluster: Nodes,
        readings: dict[UpstreamPartition, Reading],
        read_committed: bool,
        tell: Callable[[EngineEvent], None],
        lost: Callable[[Reading, tuple[int, int] | None], None],
    ) -> None:
        self._cluster = cluster
        self._readings = readings
        self._read_committed = read_committed
        self._tell = tell
        self._lost = lost
        self._spans: asyncio.Queue[tuple[RereadToken, UpstreamPartition, Span]] = asyncio.Queue()
        self._turns: WeakKeyDictionary[Node, asyncio.Lock] = WeakKeyDictionary()

    def read(self, token: RereadToken, source: UpstreamPartition, span: Span) -> None:
        self._spans.put_nowait((token, source, span))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._answer(*await self._spans.get()))

    async def _answer(self, token: RereadToken, source: UpstreamPartition, span: Span) -> None:
        error, log_start = await self._read(token, source, span)
        self._tell(Reread(source, token, (), True, error, log_start))

    async def _read(self, token: RereadToken, source: UpstreamPartition, span: Span) -> tuple[str, int]:
        """Why it ended early, "" if it did not; and where the log begins, if that was asked for."""
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
                await asyncio.sleep(REST)
                continue
            try:
                waits_since = loop.time()
                async with self._turns.setdefault(node, asyncio.Lock()):
                    progress_at += loop.time() - waits_since  # that others are read is no want of progress
                    after, is_end, begins = await self._piece(reading, node, position, token, span)
            except (Unreachable, ProtocolError, CorruptBatch) as problem:
                reason = str(problem)
                self._lost(reading, None)
                await asyncio.sleep(REST)
                continue
            log_start = max(log_start, begins)
            if after > span.last or is_end:
                return "", log_start
            if after > position:
                position, progress_at = after, loop.time()
            else:
                await asyncio.sleep(REST)
        return reason, log_start

    async def _piece(
        self, reading: Reading, node: Node, position: int, token: RereadToken, span: Span
    ) -> tuple[int, bool, int]:
        """The next position, whether nothing of the span can follow, and where the log begins, 0 if nobody asked."""
        source = reading.source
        served = (await node.asking.versions()).get(messages.FETCH)
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
        answer = decode_fetch_answer(await node.asking.request(request))
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

    async def _at_end(self, reading: Reading, node: Node, position: int, span: Span) -> tuple[int, bool, int]:
        """The log ends here, or begins behind it: whoever asks for the end is told to wait until its leader knows
        (KIP-207)."""
        low = await offset_of(reading.source, node, reading.epoch, EARLIEST)
        high = await offset_of(reading.source, node, reading.epoch, LATEST)
        if low is None or high is None:
            return position, False, 0
        after = max(position, low)
        return after, after >= min(span.last + 1, high), low

    def _deliver(self, source: UpstreamPartition, token: RereadToken, span: Span, batches: tuple[Batch, ...]) -> None:
        # Batches are whole: who asked cuts them to the span, unless they are damaged.
        within = tuple(_begun_within(batch, span) for batch in batches if batch.first <= span.last)
        if within:
            self._tell(Reread(source, token, within, False))


def _begun_within(run: Batch, span: Span) -> Batch:
    """The batches of a run that begin within the span."""
    count = fitting(run, len(run.data), span.last - run.first + 1)
    return split(run, count)[0] if 0 < count < len(run.marks) else run
