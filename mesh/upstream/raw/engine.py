"""The raw engine: librdkafka is the member of the group and commits, records come over our own connections, undecoded.

What librdkafka's side tells goes through here: assignments say what is read from where; its own partitions are paused
from the first moment on. All of it runs on the event loop; only librdkafka's consumer has its thread.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mesh.records.spans import CommitPosition, Span, TopicName, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    Committed,
    CommitToken,
    EngineEvent,
    EngineFailed,
    EngineOptions,
    HighWatermarks,
    Lost,
    PositionReset,
    ReadingDown,
    ReadingUp,
    RereadToken,
    Revoked,
    SourceDown,
    SourceUp,
    TopicsIdentified,
    Truncated,
)
from mesh.upstream.librdkafka.commit_queue import REBALANCE_IN_PROGRESS
from mesh.upstream.librdkafka.engine import LibrdkafkaEngine
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import access_of
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.raw.fetching import Fetching
from mesh.upstream.raw.reading import Reading
from mesh.upstream.raw.rereading import Rereading


class RawEngine:
    """See `mesh.upstream.engine.Engine`. buffers: shared by all engines of the process."""

    def __init__(
        self,
        options: EngineOptions,
        deliver: Callable[[EngineEvent], None],
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._closed = False
        self._noticed_logs = self._noticed_topics = 0
        """How many logs began anew or parted, and how many began anew, as our own reading has noticed."""
        self._readings: dict[UpstreamPartition, Reading] = {}
        self._cluster = Nodes(
            options.cluster, options.bootstrap_servers, access_of(options.properties), buffers.allocate
        )
        read_committed = options.isolation == "read_committed"
        self._fetching = Fetching(
            self._cluster,
            self._readings,
            read_committed,
            options.buffer_bytes,
            buffers,
            self._noticed,
            self._delegate,
            loop,
        )
        self._rereading = Rereading(self._cluster, self._readings, read_committed, self._tell, self._fetching.lost)
        self._consuming = True
        self._refused: dict[CommitToken, Mapping[UpstreamPartition, int]] = {}
        """Errors of parts of commits that are under way, which were not asked for."""
        self._task: asyncio.Task[None] | None = None
        self._group = LibrdkafkaEngine(options, self._from_group, loop, reads=False, nodes=self._cluster)
        self._fetching.made_anew = lambda source: self._group.noticed_anew(source)

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        if self._task is None:
            # Kept here until `close`; what ends it before is told.
            self._task = self._loop.create_task(self._run(), name="raw engine")
        self._group.subscribe(topics)

    def set_consuming(self, consuming: bool) -> None:
        self._consuming = consuming
        self._fetching.set_consuming(consuming)
        if any(reading.delegated for reading in self._readings.values()):
            self._group.set_consuming(consuming)

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._set_paused(partitions, True)
        if delegated := self._delegated(partitions):
            self._group.pause(delegated)

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._set_paused(partitions, False)
        if delegated := self._delegated(partitions):
            self._group.resume(delegated)

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        # Before it: librdkafka's side must not take a position of ours for another member's.
        self._advance_group(*self._readings)
        gone = self._of_topics_that_are_gone(positions)
        if len(gone) == len(positions) > 0:
            self._loop.call_soon(self._tell, Committed(token, gone))
            return
        if gone:
            self._refused[token] = gone
        self._group.commit(token, self._with_epochs({key: each for key, each in positions.items() if key not in gone}))

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        reading = self._readings.get(partition)
        if reading is not None and reading.delegated:
            self._group.reread(token, partition, span)
        else:
            self._rereading.read(token, partition, span)

    def set_eager(self, eager: bool) -> None:
        self._group.set_eager(eager)

    async def close(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> Mapping[UpstreamPartition, int]:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._cluster.close()
        gone = self._of_topics_that_are_gone(positions)
        kept = {key: each for key, each in positions.items() if key not in gone}
        return {**await self._group.close(self._with_epochs(kept)), **gone}

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._rereading.run())
                tasks.create_task(self._fetching.run(tasks))
        except Exception as problem:  # noqa: BLE001 - told with its traceback; another engine is made
            self._tell(EngineFailed(repr(problem), "".join(traceback.format_exception(problem))))

    # What librdkafka's side tells

    def _from_group(self, event: EngineEvent) -> None:
        match event:
            case Assigned() | Revoked() | Lost() | PositionReset():
                self._tell(self._taken(event))
                self._fetching.look_for_leaders()
            case SourceDown() | SourceUp():
                self._fetching.health.is_cluster_down = isinstance(event, SourceDown)
                self._tell(event)
                self._fetching.look_for_leaders()
            case ReadingDown():
                self._fetching.health.of_group = event
            case ReadingUp():
                self._fetching.health.of_group = None
            case Committed(token, errors) if token in self._refused:
                self._tell(Committed(token, {**errors, **self._refused.pop(token)}))
            case _:
                self._tell(event)

    def _taken(self, event: Assigned | Revoked | Lost | PositionReset) -> EngineEvent:
        """What is to be told of it, when it is known what is read."""
        match event:
            case Assigned(partitions):
                event = Assigned(tuple(map(self._assigned, partitions)))
                now_ours = {each.partition for each in partitions}
                for source in [source for source in self._readings if source not in now_ours]:
                    del self._readings[source]
            case Revoked(sources):
                for source in sources:
                    if (reading := self._readings.get(source)) is not None:
                        reading.revoked = True
            case Lost(sources):
                for source in sources:
                    self._readings.pop(source, None)
            case PositionReset(source, start, _):
                # Its topic was made anew; whatever id that has now, it is the right one.
                self._readings[source] = Reading(source, start)
        return event

    def _assigned(self, partition: AssignedPartition) -> AssignedPartition:
        """What is resumed goes on where we are, and not where librdkafka's side believes us to be: that may be told of
        a log that was cut, or began anew, after it has told of the assignment."""
        source = partition.partition
        known = self._readings.get(source) if partition.resumed else None
        if known is None:
            reading = Reading(source, partition.start)
            if partition.committed.metadata and partition.committed.leader_epoch >= 0:
                reading.log_epoch, reading.unchecked = partition.committed.leader_epoch, True
        elif known.anew:
            known.revoked = known.paused = False
            return partition  # where it begins is being asked, and will be told
        else:
            reading = known.again(partition.start if known.delegated else known.position)
        self._readings[source] = reading
        return replace(partition, start=reading.position)

    # Ours

    def _noticed(self, event: EngineEvent) -> None:
        """Our own reading tells it."""
        if isinstance(event, PositionReset | Truncated):
            self._noticed_logs += 1
            self._group.forget_ends(self._noticed_logs)
            # What it finds committed above that is of the log before, and no other member's.
            self._advance_group(event.partition)
        if isinstance(event, PositionReset):
            self._noticed_topics += 1
            self._group.forget_ids(self._noticed_topics)
        self._tell(event)

    def _advance_group(self, *sources: UpstreamPartition) -> None:
        """So far these are read, by us."""
        ours = [self._readings[source] for source in sources if source in self._readings]
        self._group.advance({each.source: each.position for each in ours if not each.delegated})

    def _of_topics_that_are_gone(self, positions: Iterable[UpstreamPartition]) -> dict[UpstreamPartition, int]:
        """An error for each whose topic was made anew, and of which it is not known yet where that begins.

        What is to be committed was read of the old one. Stored, it would pass over as much of the new one after a
        rebalance.
        """
        readings = {source: self._readings.get(source) for source in positions}
        return {source: REBALANCE_IN_PROGRESS for source, each in readings.items() if each is not None and each.anew}

    def _with_epochs(
        self, positions: Mapping[UpstreamPartition, CommitPosition]
    ) -> dict[UpstreamPartition, CommitPosition]:
        """With the leader epochs of what they say was settled out of order, where all of it came through here."""
        told: dict[UpstreamPartition, CommitPosition] = {}
        for source, position in positions.items():
            reading = self._readings.get(source)
            is_known = position.is_read and position.metadata and reading is not None and not reading.delegated
            told[source] = replace(position, leader_epoch=reading.log_epoch) if is_known and reading else position
        return told

    def _is_outdated(self, event: EngineEvent) -> bool:
        """Of earlier logs, perhaps: it will be told again."""
        match event:
            case HighWatermarks(_, resets):
                return resets != self._noticed_logs
            case TopicsIdentified(_, resets):
                return resets != self._noticed_topics
            case _:
                return False

    def _tell(self, event: EngineEvent) -> None:
        if self._closed or self._is_outdated(event):
            return
        try:
            self._deliver(event)
        except Exception as problem:  # noqa: BLE001 - a bug in what was told; reading goes on
            self._loop.call_exception_handler({"message": "an engine's event was not taken", "exception": problem})

    def _delegate(self, reading: Reading) -> None:
        """Leave a partition of an old record format to librdkafka."""
        reading.delegated = True
        self._group.set_consuming(self._consuming)
        self._group.read(reading.source, reading.position)

    def _set_paused(self, partitions: frozenset[UpstreamPartition], paused: bool) -> None:
        for source in partitions:
            if (reading := self._readings.get(source)) is not None:
                reading.paused = paused
        self._fetching.wake()

    def _delegated(self, partitions: frozenset[UpstreamPartition]) -> frozenset[UpstreamPartition]:
        return frozenset(
            source for source in partitions if (reading := self._readings.get(source)) and reading.delegated
        )
