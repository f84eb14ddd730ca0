"""Looks up the leaders of the partitions that are read, while one is missing or does not answer.

A leader is also missing if it is no longer a broker of the cluster. An answer to any request for the brokers may show
that, also while no request to that leader could fail. So the mesh looks every second whether leaders are missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from mesh.records.spans import TopicName, UpstreamPartition
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.raw.health import Health
from mesh.upstream.raw.reading import NO_NODE, Reading
from mesh.wire.client.messages import TopicLeaders
from mesh.wire.errors import ErrorCode

RETRY_DELAY: Final = 0.1
MAX_RETRY_DELAY: Final = 1.0
"""The most seconds between two requests for a missing leader; the pause doubles. With none missing, the seconds between
two looks whether one is."""

Leader = tuple[int, int]
"""Node id and epoch."""


class Leaders:
    """The leaders of the partitions that are read. changed: called when new ones are known. start_over: called with a
    partition whose topic was created again, its leader and the new topic's id."""

    def __init__(
        self,
        nodes: Nodes,
        readings: dict[UpstreamPartition, Reading],
        health: Health,
        start_over: Callable[[UpstreamPartition, int, UUID | None], None],
        changed: Callable[[], None],
    ) -> None:
        self._nodes = nodes
        self._readings = readings
        self._health = health
        self._start_over = start_over
        self._changed = changed
        self._wanted = asyncio.Event()
        self._doubted: set[Reading] = set()

    def look_up(self) -> None:
        """Looks up leaders, since some may be missing."""
        self._wanted.set()

    def lost(self, reading: Reading, newer: Leader | None = None) -> None:
        """Notes that the leader leads no longer, or cannot be reached. newer: the leader according to that node."""
        if newer is not None and newer[0] in self._nodes.nodes and newer[1] > reading.epoch:
            reading.leader, reading.epoch = newer
            self._changed()
            return
        reading.leader = NO_NODE
        self._wanted.set()

    def doubt(self, readings: Iterable[Reading]) -> None:
        """Notes that the node of these readings has not answered in time; perhaps it hangs, and others lead by now."""
        self._doubted.update(readings)
        self._wanted.set()

    def trust(self, readings: Iterable[Reading]) -> None:
        """Notes that the node of these readings has answered, or that its request has failed."""
        if self._doubted:
            self._doubted.difference_update(readings)

    async def run(self) -> None:
        pause, following = MAX_RETRY_DELAY, RETRY_DELAY
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            self._wanted.clear()
            if missing := self._missing():
                await self._look_up_leaders(missing)
            if self._missing():
                pause, following = following, min(2 * following, MAX_RETRY_DELAY)
            else:
                pause, following = MAX_RETRY_DELAY, RETRY_DELAY

    async def _look_up_leaders(self, missing: Collection[Reading]) -> None:
        try:
            layout = await self._nodes.layout({each.source.topic for each in missing})
        except Unreachable as problem:
            self._blame(missing, str(problem))
        else:
            reported = {topic.name for topic in layout.topics if self._lead(topic)}
            self._changed()
            self._blame([each for each in self._leaderless() if each.source.topic not in reported], "it has no leader")

    def _leaderless(self) -> list[Reading]:
        return [each for each in self._readings.values() if each.leader not in self._nodes.nodes]

    def _missing(self) -> list[Reading]:
        self._doubted = {each for each in self._doubted if self._readings.get(each.source) is each}
        return [*self._leaderless(), *self._doubted]

    def _blame(
        self, readings: Collection[Reading], reason: str, problem: UpstreamProblem = UpstreamProblem.UNREADABLE
    ) -> None:
        now = asyncio.get_running_loop().time()
        for reading in readings:
            self._health.failed(reading.source, now, reason, problem)

    def _lead(self, topic: TopicLeaders) -> bool:
        """Takes over the leaders of a topic. Returns whether the reason for missing ones is reported already."""
        for partition in topic.partitions:
            source = UpstreamPartition(self._nodes.name, TopicName(topic.name), partition.partition)
            reading = self._readings.get(source)
            if reading is None or partition.leader not in self._nodes.nodes:
                continue
            if reading.topic_id is not None and topic.topic_id is not None and topic.topic_id != reading.topic_id:
                self._start_over(source, partition.leader, topic.topic_id)
            elif topic.topic_id is None or partition.epoch >= reading.epoch:
                # Otherwise the answer is older than our knowledge. Without ids it may be a new topic, whose epochs
                # begin at 0.
                self._take(reading, (partition.leader, partition.epoch), topic.topic_id)
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            ours = [each for each in self._readings.values() if each.source.topic == topic.name]
            self._blame(ours, "its topic may not be described", UpstreamProblem.NOT_AUTHORIZED)
            return True
        # The catalog reports a missing topic.
        return topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _take(self, reading: Reading, leader: Leader, topic_id: UUID | None) -> None:
        if reading in self._doubted and leader != (reading.leader, reading.epoch):
            self._doubted.discard(reading)
            reading.request = None
        reading.leader, reading.epoch = leader
        reading.topic_id = topic_id
