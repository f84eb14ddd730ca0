"""Reading ranges as the batches that lie in the log, over the mesh's own connections to the upstream cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from types import TracebackType

from mesh.records.batch import Batch, CorruptBatch
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.links.connection_settings import access_of
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Node, Nodes
from mesh.upstream.problems import name_of
from mesh.upstream.raw.log_bounds import EARLIEST, LATEST, offset_of
from mesh.upstream.raw.reading import (
    NO_LEADER,
    NotTheLeader,
    OldFormat,
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
"""Of one answer; a batch that is larger comes all the same (KIP-74)."""
WAIT_MS = 500
REST = 0.1
"""Seconds until what did not work is tried again."""


class NotReadHere(Exception):
    """From `position` on librdkafka is needed: an old record format, or an old broker."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Upstream:
    """One upstream cluster, for one task. The loop runs only while something is waited for; what was asked for ahead
    comes meanwhile."""

    def __init__(
        self, cluster: str, properties: Mapping[str, str], fail_on_loss: bool, read_committed: bool = True
    ) -> None:
        """Raises OSError for files of the properties that cannot be used."""
        self._fail_on_loss = fail_on_loss
        self._read_committed = read_committed
        self._runner = asyncio.Runner()
        self._nodes = Nodes(ClusterName(cluster), properties["bootstrap.servers"], access_of(properties))

    def __enter__(self) -> Upstream:
        self._runner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nodes.close()
        self._runner.close()

    def read(self, piece: Range) -> Iterator[tuple[Batch, ...]]:
        """The batches that a range lies in, as far as they are for consumers of this isolation level. Raises DataLost,
        ReadFailed, NotReadHere."""
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
                    loop.run_until_complete(asyncio.sleep(0))  # it is sent, and answered while these are decoded
                if batches:
                    yield batches
                if is_over:
                    return
        finally:
            ahead.cancel()


class _Log:
    """One partition, as its leader, or the replica that this one names, tells it."""

    def __init__(self, nodes: Nodes, piece: Range, fail_on_loss: bool, read_committed: bool) -> None:
        self._nodes = nodes
        self._piece = piece
        self._fail_on_loss = fail_on_loss
        self._read_committed = read_committed
        self._source = UpstreamPartition(ClusterName(piece.cluster), TopicName(piece.topic), piece.partition)
        self._node: Node | None = None
        self._epoch = -1

    async def after(self, position: int) -> tuple[tuple[Batch, ...], int]:
        """What stands at `position` and behind it, and the position behind that; at least one of both is news. Raises
        DataLost, ReadFailed, NotReadHere."""
        began, reason = time.monotonic(), "nothing came"
        while time.monotonic() < began + GIVE_UP_AFTER:
            try:
                batches, after, reason = await self._attempt(position)
            except (Unreachable, ProtocolError, CorruptBatch) as problem:
                batches, after, reason = (), position, str(problem)
                self._node = None
            if batches or after > position:
                return batches, after
            await asyncio.sleep(REST)
        raise ReadFailed(f"nothing came of {self._piece} for {GIVE_UP_AFTER:g} s: {reason}")

    async def _attempt(self, position: int) -> tuple[tuple[Batch, ...], int, str]:
        """The same, or why there is nothing."""
        node = self._node = self._node or await self._leader()
        if node is None:
            return (), position, "it has no leader"
        version = version_for((await node.fetching.versions()).get(messages.FETCH), has_ids=False)
        if version is None:
            raise NotReadHere(position)
        request = fetch_request(
            version,
            {self._piece.topic: [FetchFrom(self._piece.partition, self._epoch, position, FETCH_BYTES)]},
            max_wait_ms=WAIT_MS,
            max_bytes=FETCH_BYTES,
            read_committed=self._read_committed,
            rack=self._nodes.rack,
        )
        answer = decode_fetch_answer(await node.fetching.request(request, WAIT_MS / 1_000))
        for fetched in answer.partitions:
            match outcome_of(fetched, position, self._read_committed, False):
                case Progress(batches, after):
                    if batches or after > position:
                        return batches, after, ""
                    return (), await self._bounded(position), "its log ends there, or a transaction is open"
                case OldFormat(before):
                    if not before.batches:
                        raise NotReadHere(position)
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
        """Where to go on if nothing stands at the position: behind the range if that is over, since its log ends; at
        the same position while a transaction is open there."""
        leader = self._node = await self._leader()
        if leader is None:
            return position
        begin = await offset_of(self._source, leader, self._epoch, EARLIEST)
        # A leader that is new to its task does not say before it knows (KIP-207).
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

    async def _leader(self) -> Node | None:
        layout = await self._nodes.layout([self._source.topic])
        for topic in layout.topics:
            for each in topic.partitions:
                if topic.name == self._piece.topic and each.partition == self._piece.partition:
                    self._epoch = each.epoch
                    return self._nodes.nodes.get(each.leader) if each.leader != NO_LEADER else None
        return None
