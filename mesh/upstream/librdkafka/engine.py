"""The librdkafka engine: confluent-kafka's consumer, whose decoded records are encoded into batches again.

confluent-kafka serialises all calls on one consumer, and some of them block. So one thread owns it and takes commands
between short polls (`consumer_thread`); the event loop never calls it. Another thread rereads spans, on a consumer
without a group (`reader_thread`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from traceback import format_exception

from mesh.records.spans import CommitPosition, Span, TopicName, UpstreamPartition
from mesh.upstream.engine import CommitToken, EngineEvent, EngineFailed, EngineOptions, RereadToken
from mesh.upstream.events import EventChannel
from mesh.upstream.groups.descriptions import GroupsByLinks
from mesh.upstream.librdkafka.commit_queue import COMMIT_TIMEOUT, REBALANCE_IN_PROGRESS, REQUEST_TIMED_OUT
from mesh.upstream.librdkafka.consumer_thread import ConsumerThread
from mesh.upstream.librdkafka.other_readers import OtherReaders
from mesh.upstream.librdkafka.reader_thread import ReaderThread
from mesh.upstream.librdkafka_properties import consumer_properties, reader_properties
from mesh.upstream.links.connection_settings import connection_settings_or_reason
from mesh.upstream.links.nodes import Nodes

CLOSE_TIMEOUT = 10.0
"""Seconds. A thread that has not ended by then is abandoned, and its session times out upstream."""


class LibrdkafkaEngine:
    """The engine (`mesh.upstream.engine.Engine`) that reads by librdkafka. `deliver` is called on `loop`'s thread."""

    def __init__(
        self,
        options: EngineOptions,
        deliver: Callable[[EngineEvent], None],
        loop: asyncio.AbstractEventLoop,
        nodes: Nodes | None = None,
        other_readers: OtherReaders | None = None,
    ) -> None:
        """nodes: for requests about the group; with None the engine makes its own, if the mesh's own connections honour
        the properties. other_readers: the readers of the partitions that are assigned to this engine; they make most
        commits, too."""
        self._loop = loop
        self._deliver = deliver
        self._channel: EventChannel[EngineEvent] = EventChannel(loop, deliver, self._not_taken)
        properties = consumer_properties(options)
        self._nodes = None if nodes is not None else _nodes_of(options)
        asked = nodes or self._nodes
        groups = None if asked is None else GroupsByLinks(asked, loop)
        readers_on_loop = other_readers and other_readers.on_loop(loop)
        self._consumer = ConsumerThread(
            options.cluster, properties, options.start, self._channel, readers_on_loop, groups
        )
        self._reader_properties = reader_properties(options)
        self._reader: ReaderThread | None = None
        self._cluster = options.cluster
        self._started = False
        self._ended: asyncio.Future[Mapping[UpstreamPartition, int]] | None = None

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        if not self._started:
            self._consumer.start()
            self._started = True
        self._consumer.command(lambda: self._consumer.subscribe(topics))

    def _not_taken(self, problem: BaseException) -> None:
        """Reports a bug in the receiver of an event. Another engine is made, since the event may be lost."""
        self._deliver(EngineFailed(repr(problem), "".join(format_exception(problem))))

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

    def look_at_ends(self, number: int) -> None:
        self._consumer.command(lambda: self._consumer.look_at_ends(number))

    def change_login(self, username: str, password: str) -> None:
        self._reader_properties = {**self._reader_properties, "sasl.username": username, "sasl.password": password}
        if self._reader is not None:
            self._reader.properties = self._reader_properties
        self._consumer.command(lambda: self._consumer.change_login(username, password))

    def advance(self, positions: Mapping[UpstreamPartition, int]) -> None:
        """Notes the positions of the other readers."""
        self._consumer.command(lambda: self._consumer.advance(positions))

    def pass_on_membership(self) -> None:
        """Passes its membership in the group on to the other readers; the engine also does so after each assignment."""
        self._consumer.command(self._consumer.pass_on_membership)

    def read(self, partition: UpstreamPartition, position: int) -> None:
        """Reads this partition itself, from this position, until the next assignment."""
        self._consumer.command(lambda: self._consumer.read(partition, position))

    def note_recreated(self, source: UpstreamPartition) -> None:
        """Notes that the other readers have seen the offsets of this partition start again."""
        self._consumer.command(lambda: self._consumer.note_recreated(source))

    def forget_ends(self, resets: int) -> None:
        """Notes how many logs the other readers have seen start again or diverge. Older answers about log ends may be
        of old logs."""
        self._consumer.command(lambda: self._consumer.forget_ends(resets))

    def forget_ids(self, resets: int) -> None:
        """Notes how many logs the other readers have seen start again. Older answers about topic ids may be of old
        topics."""
        self._consumer.command(lambda: self._consumer.forget_ids(resets))

    async def close(
        self, positions: Mapping[UpstreamPartition, CommitPosition], *, leaves: bool = True
    ) -> Mapping[UpstreamPartition, int]:
        self._channel.close()
        if self._reader is not None:
            self._reader.stop()
        if self._nodes is not None:
            self._nodes.close()
        if self._ended is None:
            if not self._consumer.is_alive() or self._consumer.has_failed:  # it never joined, or has failed
                return dict.fromkeys(positions, REBALANCE_IN_PROGRESS)
            ended = self._ended = self._loop.create_future()
            self._consumer.command(lambda: self._consumer.stop(positions, self._loop, ended, leaves=leaves))
        try:
            return await asyncio.wait_for(asyncio.shield(self._ended), CLOSE_TIMEOUT)
        except TimeoutError:
            return dict.fromkeys(positions, REQUEST_TIMED_OUT)


def _nodes_of(options: EngineOptions) -> Nodes | None:
    """Returns the nodes of the cluster, which connect at the first request."""
    settings = options.settings or connection_settings_or_reason(options.properties)
    return None if isinstance(settings, str) else Nodes(options.cluster, options.bootstrap_servers, settings)
