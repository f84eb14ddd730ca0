"""The librdkafka engine: confluent-kafka's consumer, decoded records put into batches again.

confluent-kafka serialises all calls on one consumer, and some of them wait. So one thread owns it and takes commands
between short polls (`consumer_thread`); the event loop never calls it. Another thread reads spans again, on a consumer
that is in no group (`reader_thread`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from mesh.records.spans import CommitPosition, Span, TopicName, UpstreamPartition
from mesh.upstream.engine import CommitToken, EngineEvent, EngineOptions, RereadToken
from mesh.upstream.events import EventChannel
from mesh.upstream.groups.descriptions import GroupsByLinks
from mesh.upstream.librdkafka.commit_queue import COMMIT_TIMEOUT, REBALANCE_IN_PROGRESS, REQUEST_TIMED_OUT
from mesh.upstream.librdkafka.consumer_thread import ConsumerThread
from mesh.upstream.librdkafka.reader_thread import ReaderThread
from mesh.upstream.librdkafka_properties import consumer_properties, reader_properties
from mesh.upstream.links.connection_settings import own_access
from mesh.upstream.links.nodes import Nodes

CLOSE_TIMEOUT = 10.0
"""Seconds. A thread that has not ended by then is left behind; its session times out upstream."""


class LibrdkafkaEngine:
    """See `mesh.upstream.engine.Engine`. `deliver` is called on `loop`'s thread."""

    def __init__(
        self,
        options: EngineOptions,
        deliver: Callable[[EngineEvent], None],
        loop: asyncio.AbstractEventLoop,
        reads: bool = True,
        nodes: Nodes | None = None,
    ) -> None:
        """reads: False for a member that commits, and leaves it to others to read what it is assigned. nodes: by which
        it asks who is in the group; None makes some, if our own connections honour the properties."""
        self._loop = loop
        self._channel: EventChannel[EngineEvent] = EventChannel(loop, deliver)
        properties = consumer_properties(options)
        self._nodes = None if nodes is not None else _nodes_of(options)
        asked = nodes or self._nodes
        groups = None if asked is None else GroupsByLinks(asked, loop)
        self._consumer = ConsumerThread(options.cluster, properties, options.start, self._channel, reads, groups)
        self._reader_properties = reader_properties(options)
        self._reader: ReaderThread | None = None
        self._cluster = options.cluster
        self._started = False
        self._ended: asyncio.Future[Mapping[UpstreamPartition, int]] | None = None

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        if not self._started:
            self._started = True
            self._consumer.start()
        self._consumer.command(lambda: self._consumer.subscribe(topics))

    def set_consuming(self, consuming: bool) -> None:
        self._consumer.command(lambda: self._consumer.set_consuming(consuming))

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._consumer.command(lambda: self._consumer.pause(partitions))

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._consumer.command(lambda: self._consumer.resume(partitions))

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        deadline = time.monotonic() + COMMIT_TIMEOUT
        self._consumer.command(lambda: self._consumer.commit(token, positions, deadline))

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        if self._reader is None:
            self._reader = ReaderThread(self._cluster, self._reader_properties, self._channel)
            self._reader.start()
        self._reader.read(token, partition, span)

    def set_eager(self, eager: bool) -> None:
        self._consumer.command(lambda: self._consumer.set_eager(eager))

    def advance(self, positions: Mapping[UpstreamPartition, int]) -> None:
        """So far it was read by others."""
        self._consumer.command(lambda: self._consumer.advance(positions))

    def read(self, partition: UpstreamPartition, position: int) -> None:
        """Read this one all the same, from there on, until the next assignment."""
        self._consumer.command(lambda: self._consumer.read(partition, position))

    def noticed_anew(self, source: UpstreamPartition) -> None:
        """Others have noticed that the partition begins anew."""
        self._consumer.command(lambda: self._consumer.noticed_anew(source))

    def forget_ends(self, resets: int) -> None:
        """Others have noticed so many logs that begin anew or part: ends that were asked before may be of others."""
        self._consumer.command(lambda: self._consumer.forget_ends(resets))

    def forget_ids(self, resets: int) -> None:
        """Others have noticed so many logs that begin anew: ids that were asked before may be of other topics."""
        self._consumer.command(lambda: self._consumer.forget_ids(resets))

    async def close(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> Mapping[UpstreamPartition, int]:
        self._channel.close()
        if self._reader is not None:
            self._reader.stop()
        if self._nodes is not None:
            self._nodes.close()
        if self._ended is None:
            if not self._consumer.is_alive() or self._consumer.has_failed:  # it never joined, or has nothing left
                return dict.fromkeys(positions, REBALANCE_IN_PROGRESS)
            ended = self._ended = self._loop.create_future()
            self._consumer.command(lambda: self._consumer.stop(positions, self._loop, ended))
        try:
            return await asyncio.wait_for(asyncio.shield(self._ended), CLOSE_TIMEOUT)
        except TimeoutError:
            return dict.fromkeys(positions, REQUEST_TIMED_OUT)


def _nodes_of(options: EngineOptions) -> Nodes | None:
    """They connect when something is asked first."""
    access = own_access(options.properties)
    return None if isinstance(access, str) else Nodes(options.cluster, options.bootstrap_servers, access)
