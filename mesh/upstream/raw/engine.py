"""The raw engine: librdkafka is the member of the group; records come over the mesh's own connections, undecoded.

Events of librdkafka's side pass through here: its assignments decide which partitions are read, and from where. Its own
partitions are paused from the start. Everything runs on the event loop; only librdkafka's consumer has a thread.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mesh.records.spans import CommitPosition, Span, TopicName, UpstreamPartition
from mesh.tasks import OwnedTask, TaskName, endless, is_order, report
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    Committed,
    CommitToken,
    EngineEvent,
    EngineFailed,
    EngineOptions,
    GroupDown,
    GroupUp,
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
from mesh.upstream.librdkafka.other_readers import OtherReaders
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.raw.fetching import Fetching
from mesh.upstream.raw.own_commits import OwnCommits
from mesh.upstream.raw.reading import Reading
from mesh.upstream.raw.rereading import Rereading
from mesh.wire.client.commits import GroupMembership


class RawEngine:
    """The engine (`mesh.upstream.engine.Engine`) that passes batches on undecoded. buffers: shared by all engines of
    the process."""

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
        """The numbers of logs that started again or diverged, and of topics that were created again, as noticed by the
        mesh's own reading."""
        self._readings: dict[UpstreamPartition, Reading] = {}
        settings = options.settings or connection_settings_of(options.properties)
        self._cluster = Nodes(options.cluster, options.bootstrap_servers, settings, buffers.allocate)
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
        self._rereading = Rereading(self._cluster, self._readings, read_committed, self._report, self._fetching.lost)
        self._consuming = True
        self._refused: dict[CommitToken, Mapping[UpstreamPartition, int]] = {}
        """Errors of the partitions that were left out of commits in flight."""
        self._task: asyncio.Task[None] | None = None
        self._group = LibrdkafkaEngine(
            options, self._from_group, loop, self._cluster, OtherReaders(self._positions, self._joined)
        )
        self._commits = OwnCommits(
            self._cluster,
            loop,
            self._committed,
            self._hand_over,
            self._group.pass_on_membership,
            lambda: self._fail(RuntimeError("a commit ended unexpectedly")),
        )
        self._fetching.recreated = lambda source: self._group.note_recreated(source)

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        if self._task is None:
            # The reference keeps the task alive. If the task ends before `close`, it reports the failure.
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
        gone = self._of_topics_that_are_gone(positions)
        if len(gone) == len(positions) > 0:
            self._loop.call_soon(self._report, Committed(token, gone))
            return
        if gone:
            self._refused[token] = gone
        kept = self._with_epochs({key: each for key, each in positions.items() if key not in gone})
        readings = [self._readings.get(source) for source in kept]
        is_ours = all(reading is not None and not reading.revoked for reading in readings)
        self._commits.commit(token, kept, is_ours)

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        reading = self._readings.get(partition)
        if reading is not None and reading.delegated:
            self._group.reread(token, partition, span)
        else:
            self._rereading.read(token, partition, span)

    def set_eager(self, eager: bool) -> None:
        self._group.set_eager(eager)

    def look_at_ends(self, number: int) -> None:
        self._group.look_at_ends(number)

    def change_login(self, username: str, password: str) -> None:
        self._group.change_login(username, password)  # the mesh's own connections share theirs

    async def close(
        self, positions: Mapping[UpstreamPartition, CommitPosition], *, leaves: bool = True
    ) -> Mapping[UpstreamPartition, int]:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._commits.close()
        self._cluster.close()
        gone = self._of_topics_that_are_gone(positions)
        kept = {key: each for key, each in positions.items() if key not in gone}
        return {**await self._group.close(self._with_epochs(kept), leaves=leaves), **gone}

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(endless(self._rereading.run))
                tasks.create_task(endless(self._fetching.run, tasks))
        except BaseException as problem:
            if is_order(problem):
                raise
            self._fail(problem)

    # Events of librdkafka's side

    def _from_group(self, event: EngineEvent) -> None:
        match event:
            case Assigned() | Revoked() | Lost() | PositionReset():
                if isinstance(event, Revoked | Lost):
                    self._commits.left()
                self._report(self._taken(event))
                self._fetching.look_for_leaders()
            case SourceDown() | SourceUp():
                self._fetching.health.is_cluster_down = isinstance(event, SourceDown)
                self._know_member(isinstance(event, SourceUp))
                self._report(event)
                self._fetching.look_for_leaders()
            case GroupDown() | GroupUp():
                self._know_member(isinstance(event, GroupUp))
                self._report(event)
            case ReadingDown():
                self._fetching.health.of_group = event
            case ReadingUp():
                self._fetching.health.of_group = None
            case Committed(token):
                self._commits.ended(token)
                self._committed(event)
            case _:
                self._report(event)

    def _taken(self, event: Assigned | Revoked | Lost | PositionReset) -> EngineEvent:
        """Applies an event to the readings, and returns the event to report."""
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
                # The topic was created again. Its current id is the right one.
                self._readings[source] = Reading(source, start)
        return event

    def _assigned(self, partition: AssignedPartition) -> AssignedPartition:
        """Returns the partition as it is read: a resumed one continues at our position, not at that of librdkafka's
        side, which may report a truncated or new log only after the assignment."""
        source = partition.partition
        known = self._readings.get(source) if partition.resumed else None
        if known is None:
            reading = Reading(source, partition.start)
            if partition.committed.metadata and partition.committed.leader_epoch >= 0:
                reading.log_epoch, reading.unchecked = partition.committed.leader_epoch, True
        elif known.recreated:
            known.revoked = known.paused = False
            return partition  # the engine is looking up the start, and will report it
        else:
            reading = known.continued_at(partition.start if known.delegated else known.position)
        self._readings[source] = reading
        return replace(partition, start=reading.position)

    def _committed(self, event: Committed) -> None:
        refused = self._refused.pop(event.token, {})
        self._report(Committed(event.token, {**event.errors, **refused}) if refused else event)

    def _joined(self, membership: GroupMembership | None) -> None:
        self._commits.joined(membership)

    def _know_member(self, works: bool) -> None:
        """Notes whether the upstream cluster works. While it does not, librdkafka makes the commits, since it notices
        when the cluster works again."""
        self._commits.left()
        if works:
            self._group.pass_on_membership()

    # The mesh's own commits

    def _hand_over(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        # Before the commit: otherwise librdkafka's side could take our position for another member's.
        self._advance_group(*self._readings)
        self._group.commit(token, positions)

    def _positions(self) -> dict[UpstreamPartition, int]:
        """Returns the next offset of each partition that the mesh reads itself. Called on any thread."""
        return {each.source: each.position for each in list(self._readings.values()) if not each.delegated}

    def _noticed(self, event: EngineEvent) -> None:
        """Notes and reports an event of the mesh's own reading."""
        if isinstance(event, PositionReset | Truncated):
            self._noticed_logs += 1
            self._group.forget_ends(self._noticed_logs)
            # A higher committed offset belongs to the old log, not to another member.
            self._advance_group(event.partition)
        if isinstance(event, PositionReset):
            self._noticed_topics += 1
            self._group.forget_ids(self._noticed_topics)
        self._report(event)

    def _advance_group(self, *sources: UpstreamPartition) -> None:
        """Passes our positions in these partitions on to librdkafka's side."""
        ours = [self._readings[source] for source in sources if source in self._readings]
        self._group.advance({each.source: each.position for each in ours if not each.delegated})

    def _of_topics_that_are_gone(self, positions: Iterable[UpstreamPartition]) -> dict[UpstreamPartition, int]:
        """Returns an error for each partition whose topic was created again, while its new start is unknown.

        The positions to commit are of the old topic. If they were stored, a rebalance would skip as many records of the
        new one.
        """
        readings = {source: self._readings.get(source) for source in positions}
        return {
            source: REBALANCE_IN_PROGRESS for source, each in readings.items() if each is not None and each.recreated
        }

    def _with_epochs(
        self, positions: Mapping[UpstreamPartition, CommitPosition]
    ) -> dict[UpstreamPartition, CommitPosition]:
        """Adds leader epochs to positions with records settled out of order, where the mesh read all of them itself."""
        with_epochs: dict[UpstreamPartition, CommitPosition] = {}
        for source, position in positions.items():
            reading = self._readings.get(source)
            is_known = position.is_read and position.metadata and reading is not None and not reading.delegated
            with_epochs[source] = (
                replace(position, leader_epoch=reading.log_epoch) if is_known and reading else position
            )
        return with_epochs

    def _is_outdated(self, event: EngineEvent) -> bool:
        """Returns whether an event may be of an earlier log. Such an event is dropped: it will be reported again."""
        match event:
            case HighWatermarks(_, resets):
                return resets != self._noticed_logs
            case TopicsIdentified(_, resets):
                return resets != self._noticed_topics
            case _:
                return False

    def _report(self, event: EngineEvent) -> None:
        if self._closed or self._is_outdated(event):
            return
        try:
            self._deliver(event)
        except BaseException as problem:  # noqa: BLE001 - a bug in the receiver
            if isinstance(event, EngineFailed):
                report(OwnedTask(TaskName.ENGINE, cluster=self._cluster.name), problem)
            else:  # another engine is made, since the event may be lost
                self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        self._report(EngineFailed(repr(problem), "".join(traceback.format_exception(problem))))

    def _delegate(self, reading: Reading) -> None:
        """Leaves a partition of an old record format to librdkafka."""
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
