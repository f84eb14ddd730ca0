"""Reads ranges as the batches in the log, over the mesh's own connections to the upstream cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from types import TracebackType

from mesh.records.batch import CorruptBatch, RecordBatch
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes, UpstreamNode
from mesh.upstream.problems import name_of
from mesh.upstream.raw.log_bounds import EARLIEST, LATEST, offset_of
from mesh.upstream.raw.reading import (
    NO_NODE,
    NotTheLeader,
    OldFormatFound,
    OutOfRange,
    Progress,
    ReadElsewhere,
    outcome_of,
)
from mesh.wire.client import messages
from mesh.wire.client.fetch import FetchFrom, decode_fetch_answer, fetch_request, version_for
from mesh.wire.errors import ProtocolError
from pyspark_kafka_mesh.failures import GIVE_UP_AFTER, DataLost, ReadFailed, gone, shortened
from pyspark_kafka_mesh.offsets import Range

FETCH_BYTES = 4 << 20
"""The most bytes of one answer; a larger batch comes all the same (KIP-74)."""
WAIT_MS = 500
RETRY_DELAY = 0.1
"""Seconds until the next attempt."""


class NeedsLibrdkafka(Exception):
    """Raised when librdkafka must read from `position` on, because of an old record format or an old broker."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Upstream:
    """One upstream cluster, for one task. The event loop runs only while the task waits. A request that was sent ahead
    is answered meanwhile."""

    def __init__(
        self, cluster: str, properties: Mapping[str, str], fail_on_loss: bool, read_committed: bool = True
    ) -> None:
        """Raises OSError for files in the properties that cannot be used."""
        self._fail_on_loss = fail_on_loss
        self._read_committed = read_committed
        self._runner = asyncio.Runner()
        self._nodes = Nodes(ClusterName(cluster), properties["bootstrap.servers"], connection_settings_of(properties))

    def __enter__(self) -> Upstream:
        self._runner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nodes.close()
        self._runner.close()

    def read(self, piece: Range) -> Iterator[tuple[RecordBatch, ...]]:
        """Yields the batches of a range that a consumer with this isolation level gets. Raises DataLost, ReadFailed and
        NeedsLibrdkafka."""
        log = _Log(self._nodes, piece, self._fail_on_loss, self._read_committed)
        loop = self._runner.get_loop()
        position = piece.first
        ahead = loop.create_task(log.after(position))
        try:
            while True:
                batches, position = loop.run_until_complete(ahead)
                is_over = position > piece.last
                if not is_over:
                    ahead = loop.create_task(log.after(position))
                    # Lets the task send its request, so that the broker answers while these batches are decoded.
                    loop.run_until_complete(asyncio.sleep(0))
                if batches:
                    yield batches
                if is_over:
                    return
        finally:
            ahead.cancel()


class _Log:
    """One partition, read from its leader, or from the replica that the leader names."""

    def __init__(self, nodes: Nodes, piece: Range, fail_on_loss: bool, read_committed: bool) -> None:
        self._nodes = nodes
        self._piece = piece
        self._fail_on_loss = fail_on_loss
        self._read_committed = read_committed
        self._source = UpstreamPartition(ClusterName(piece.cluster), TopicName(piece.topic), piece.partition)
        self._node: UpstreamNode | None = None
        self._epoch = -1

    async def after(self, position: int) -> tuple[tuple[RecordBatch, ...], int]:
        """Returns the batches from `position` on, and the position after them. There are batches, or the position is
        higher. Raises DataLost, ReadFailed and NeedsLibrdkafka."""
        began, reason = time.monotonic(), "nothing came"
        while time.monotonic() < began + GIVE_UP_AFTER:
            try:
                batches, after, reason = await self._attempt(position)
            except (Unreachable, ProtocolError, CorruptBatch) as problem:
                batches, after, reason = (), position, str(problem)
                self._node = None
            if batches or after > position:
                return batches, after
            await asyncio.sleep(RETRY_DELAY)
        raise ReadFailed(f"nothing came of {self._piece} for {GIVE_UP_AFTER:g} s: {reason}")

    async def _attempt(self, position: int) -> tuple[tuple[RecordBatch, ...], int, str]:
        """Makes one attempt. Returns the same as `after`, and the reason if there is nothing."""
        node = self._node = self._node or await self._leader()
        if node is None:
            return (), position, "it has no leader"
        version = version_for((await node.fetch_link.versions()).get(messages.FETCH), has_ids=False)
        if version is None:
            raise NeedsLibrdkafka(position)
        request = fetch_request(
            version,
            {self._piece.topic: [FetchFrom(self._piece.partition, self._epoch, position, FETCH_BYTES)]},
            max_wait_ms=WAIT_MS,
            max_bytes=FETCH_BYTES,
            read_committed=self._read_committed,
            rack=self._nodes.rack,
        )
        answer = decode_fetch_answer(await node.fetch_link.request(request, WAIT_MS / 1_000))
        for fetched in answer.partitions:
            match outcome_of(fetched, position, self._read_committed, False):
                case Progress(batches, after):
                    if batches or after > position:
                        return batches, after, ""
                    return (), await self._bounded(position), "its log ends there, or a transaction is open"
                case OldFormatFound(before):
                    if not before.batches:
                        raise NeedsLibrdkafka(position)
                    return before.batches, before.position, ""
                case OutOfRange():
                    return (), await self._bounded(position), "its log does not have the offset"
                case ReadElsewhere(node_id):
                    self._node = self._nodes.nodes.get(node_id)
                case NotTheLeader():
                    self._node = None
                case _:
                    pass
            return (), position, name_of(fetched.error_code)
        self._node = None
        return (), position, name_of(answer.error_code)

    async def _bounded(self, position: int) -> int:
        """Returns the position at which to continue if there is nothing at this one: the position after the range if
        the log ends before; the same position while a transaction is open there."""
        leader = self._node = await self._leader()
        if leader is None:
            return position
        begin = await offset_of(self._source, leader, self._epoch, EARLIEST)
        # A new leader does not answer before it knows the end (KIP-207).
        end = await offset_of(self._source, leader, self._epoch, LATEST, self._read_committed)
        if begin is None or end is None:
            return position
        if position < begin:
            if self._fail_on_loss:
                raise DataLost(gone(self._piece, f"its log begins at {begin}"))
            return begin
        if position >= end:
            if self._read_committed:
                last = await offset_of(self._source, leader, self._epoch, LATEST)
                if last is None or last > position:
                    return position
            if self._fail_on_loss:
                raise DataLost(shortened(self._piece, end))
            return self._piece.last + 1
        return position

    async def _leader(self) -> UpstreamNode | None:
        layout = await self._nodes.layout([self._source.topic])
        for topic in layout.topics:
            for each in topic.partitions:
                if topic.name == self._piece.topic and each.partition == self._piece.partition:
                    self._epoch = each.epoch
                    return self._nodes.nodes.get(each.leader) if each.leader != NO_NODE else None
        return None
