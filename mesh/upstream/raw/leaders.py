"""Who leads the partitions that are read: looked for while one is missing, and while one does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final
from uuid import UUID

from mesh.records.spans import TopicName, UpstreamPartition
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.raw.health import Health
from mesh.upstream.raw.reading import NO_LEADER, Reading
from mesh.wire.client.messages import TopicLeaders
from mesh.wire.errors import ErrorCode

LOOK_AGAIN: Final = 0.1
LOOK_AGAIN_AT_MOST: Final = 1.0
"""Seconds between two looks for a leader that is missing; they double from one to the other."""

Leader = tuple[int, int]
"""Node id and epoch."""


class Leaders:
    """The leaders of the partitions that are read. changed: called when some are known that were not. begin_anew: told
    of a partition whose topic is another one now, with its leader and the topic's id."""

    def __init__(
        self,
        nodes: Nodes,
        readings: dict[UpstreamPartition, Reading],
        health: Health,
        begin_anew: Callable[[UpstreamPartition, int, UUID | None], None],
        changed: Callable[[], None],
    ) -> None:
        self._nodes = nodes
        self._readings = readings
        self._health = health
        self._begin_anew = begin_anew
        self._changed = changed
        self._wanted = asyncio.Event()
        self._doubted: set[Reading] = set()
        self._rest = LOOK_AGAIN

    def look(self) -> None:
        """Some may be missing."""
        self._wanted.set()

    def lost(self, reading: Reading, newer: Leader | None = None) -> None:
        """Its node is not the one to ask, or cannot be reached. newer: who leads, as that node knows."""
        if reading.replica != NO_LEADER:
            reading.replica = NO_LEADER
            return
        if newer is not None and newer[0] in self._nodes.nodes and newer[1] > reading.epoch:
            reading.leader, reading.epoch = newer
            self._changed()
            return
        reading.leader = NO_LEADER
        self._wanted.set()

    def doubt(self, readings: Iterable[Reading]) -> None:
        """Their node has not answered in time; perhaps it hangs, and others lead by now."""
        self._doubted.update(readings)
        self._wanted.set()

    def trust(self, readings: Iterable[Reading]) -> None:
        """Their node has answered, or is given up."""
        if self._doubted:
            self._doubted.difference_update(readings)

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            missing = self._missing()
            if not missing:
                self._rest = LOOK_AGAIN
                continue
            try:
                layout = await self._nodes.layout({each.source.topic for each in missing})
            except Unreachable as problem:
                self._blame(missing, str(problem))
            else:
                told = {topic.name for topic in layout.topics if self._lead(topic)}
                self._changed()
                self._blame([each for each in self._leaderless() if each.source.topic not in told], "it has no leader")
            if self._missing():
                asyncio.get_running_loop().call_later(self._rest, self._wanted.set)
                self._rest = min(2 * self._rest, LOOK_AGAIN_AT_MOST)
            else:
                self._rest = LOOK_AGAIN

    def _leaderless(self) -> list[Reading]:
        return [each for each in self._readings.values() if each.leader == NO_LEADER]

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
        """Whether it is told already why some of its partitions have no leader."""
        for partition in topic.partitions:
            source = UpstreamPartition(self._nodes.name, TopicName(topic.name), partition.partition)
            reading = self._readings.get(source)
            if reading is None or partition.leader not in self._nodes.nodes:
                continue
            if reading.topic_id is not None and topic.topic_id is not None and topic.topic_id != reading.topic_id:
                self._begin_anew(source, partition.leader, topic.topic_id)
            elif topic.topic_id is None or partition.epoch >= reading.epoch:
                # Else it is older than what we know. Without ids it may be a new topic, whose epochs begin anew.
                self._take(reading, (partition.leader, partition.epoch), topic.topic_id)
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            ours = [each for each in self._readings.values() if each.source.topic == topic.name]
            self._blame(ours, "its topic may not be described", UpstreamProblem.NOT_AUTHORIZED)
            return True
        # That it is not there is told by whoever looks at the topics of the cluster.
        return topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _take(self, reading: Reading, leader: Leader, topic_id: UUID | None) -> None:
        if reading in self._doubted and leader != (reading.leader, reading.epoch):
            self._doubted.discard(reading)
            reading.flight = None
        reading.leader, reading.epoch = leader
        reading.topic_id = topic_id
