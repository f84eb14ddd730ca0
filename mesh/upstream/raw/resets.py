"""Decides where reading continues when the log does not have the next offset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

from mesh.records.spans import Gap, UpstreamPartition
from mesh.tasks import finite
from mesh.upstream.engine import EndReached, EngineEvent, PositionReset, Truncated
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.raw.leaders import Leaders
from mesh.upstream.raw.log_bounds import EARLIEST, LATEST, end_of_epoch, offset_of, topic_id_of
from mesh.upstream.raw.reading import PASSING, RETRY_DELAY, Reading

_ANEW = "the topic was deleted and created again"
_CUT_OFF = "the log was truncated, or the topic created again: brokers without topic ids do not tell"


class Resets:
    """The partitions whose logs have changed: finds out where each continues. report: called with each event.
    recreated: called with each partition that starts again. go_on: called when some may be read again. delay: delays a
    reading by some seconds."""

    def __init__(
        self,
        nodes: Nodes,
        readings: dict[UpstreamPartition, Reading],
        report: Callable[[EngineEvent], None],
        recreated: Callable[[UpstreamPartition], None],
        go_on: Callable[[], None],
        delay: Callable[[Reading, float], None],
        tasks: asyncio.TaskGroup,
        leaders: Leaders,
    ) -> None:
        self._nodes = nodes
        self._readings = readings
        self._report = report
        self._recreated = recreated
        self._go_on = go_on
        self._delay = delay
        self._tasks = tasks
        self._leaders = leaders
        self._checked: set[Reading] = set()
        """Partitions whose logs are being checked."""

    def start_over(self, source: UpstreamPartition, leader: int, topic_id: UUID | None) -> None:
        """Starts a partition again whose topic was created again."""
        self._recreated(source)
        is_revoked = self._readings[source].revoked
        reading = self._readings[source] = Reading(source, 0, topic_id, leader, revoked=is_revoked)
        reading.suspended = reading.recreated = True
        self._tasks.create_task(finite(self._from_beginning, reading))

    def out_of_range(self, reading: Reading) -> None:
        """Handles a log that does not have the position, or does not know the epoch before it."""
        reading.suspended = True
        reading.last_epoch = -1
        self._tasks.create_task(finite(self._where_the_log_is, reading))

    def truncated(self, reading: Reading, end: int) -> None:
        """Handles another leader's log that diverges from `end` on (an unclean election): the records read there are
        gone."""
        reading.last_epoch = reading.log_epoch = -1
        if end < reading.position:
            reading.position, reading.reported_end = end, -1
        self._report(Truncated(reading.source, end))

    def check(self, readings: Iterable[Reading]) -> None:
        """Checks whether the logs are still the same, for partitions with known leaders."""
        for each in readings:
            if each.unchecked and each not in self._checked and each.leader in self._nodes.nodes:
                self._checked.add(each)
                self._tasks.create_task(finite(self._check, each))

    async def _check(self, reading: Reading) -> None:
        """Checks whether a log is still the same. The reading stays `unchecked` until then."""
        try:
            while self._readings.get(reading.source) is reading:
                end = await self._end_of_epoch(reading)
                if self._readings.get(reading.source) is not reading or reading.is_stopped:
                    return  # its next owner checks again
                if end is not None:
                    reading.unchecked = False
                    if 0 <= end < reading.position:
                        self.truncated(reading, end)
                    elif end >= 0:
                        self._report(Truncated(reading.source, end))
                    self._go_on()
                    return
                await asyncio.sleep(RETRY_DELAY)
        finally:
            self._checked.discard(reading)

    async def _end_of_epoch(self, reading: Reading) -> int | None:
        """Returns the end of the epoch; -1 if it cannot be known; None if it must be asked for again."""
        node = self._nodes.nodes.get(reading.leader)
        if node is None:
            self._leaders.look_up()
            return None
        try:
            error, end = await end_of_epoch(reading.source, node, reading.epoch, reading.log_epoch)
        except Unreachable as problem:
            self._nodes.failed(node.request_link, str(problem))
            self._leaders.lost(reading)
            return None
        if error in PASSING:
            self._leaders.lost(reading)
            return None
        return -1 if error else end

    async def _from_beginning(self, reading: Reading) -> None:
        if (bounds := await self._bounds(reading)) is not None:
            reading.suspended = reading.recreated = False
            self._reset(reading, bounds[0], _ANEW)

    async def _where_the_log_is(self, reading: Reading) -> None:
        """Looks up the bounds of a log, and continues within them. The reading stays `suspended` until then."""
        if (bounds := await self._bounds(reading)) is None:
            return
        begins, ends = bounds
        if reading.position > ends:
            await self._cut_off(reading, begins, ends)
            return
        reading.suspended = False
        # The missing records were deleted, or they exist and this replica does not have them yet.
        if reading.position >= begins:
            self._delay(reading, RETRY_DELAY)
        reading.position = max(reading.position, begins)
        self._report(EndReached(reading.source, reading.position, Gap.DELETED))
        self._go_on()

    async def _cut_off(self, reading: Reading, begins: int, ends: int) -> None:
        """Handles a partition that was read beyond its end. With the same topic id the log was truncated, with another
        id it starts again. Without ids it is read from its start, since lost records would not come again."""
        topic_id = await self._topic_id(reading)
        if self._readings.get(reading.source) is not reading:
            return
        if topic_id is None or reading.topic_id is None:
            reading.suspended = False
            self._recreated(reading.source)  # perhaps it was created again, which must not be reported twice
            self._reset(reading, begins, _CUT_OFF)
        elif topic_id != reading.topic_id:
            self.start_over(reading.source, reading.leader, topic_id)
        else:
            await self._truncate(reading, ends)

    async def _truncate(self, reading: Reading, ends: int) -> None:
        """Handles a truncated log. It may have grown again above the cut; only the epoch of the records shows it."""
        epoch_ends: int | None = None if reading.log_epoch >= 0 else -1
        while epoch_ends is None:
            epoch_ends = await self._end_of_epoch(reading)
            if self._readings.get(reading.source) is not reading:
                return
            if epoch_ends is None:
                await asyncio.sleep(RETRY_DELAY)
        reading.suspended = False
        self.truncated(reading, min(ends, epoch_ends) if epoch_ends >= 0 else ends)
        self._go_on()

    async def _topic_id(self, reading: Reading) -> UUID | None:
        while self._readings.get(reading.source) is reading:
            node = self._nodes.nodes.get(reading.leader)
            if node is not None:
                try:
                    return await topic_id_of(reading.source, node)
                except Unreachable as problem:
                    self._nodes.failed(node.request_link, str(problem))
                    self._leaders.lost(reading)
            self._leaders.look_up()
            await asyncio.sleep(RETRY_DELAY)
        return None

    def _reset(self, reading: Reading, start: int, reason: str) -> None:
        reading.position, reading.reported_end, reading.log_epoch = start, -1, -1
        self._report(PositionReset(reading.source, start, reason))
        self._go_on()

    async def _bounds(self, reading: Reading) -> tuple[int, int] | None:
        """Returns the start and the end of the log, as soon as a broker knows them; None if the partition is not ours
        any more."""
        while self._readings.get(reading.source) is reading:
            bounds = await self._bounds_now(reading)
            if bounds is not None and self._readings.get(reading.source) is reading:
                return bounds
            await asyncio.sleep(RETRY_DELAY)
        return None

    async def _bounds_now(self, reading: Reading) -> tuple[int, int] | None:
        node = self._nodes.nodes.get(reading.leader)
        if node is None:
            self._leaders.look_up()
            return None
        try:
            first = await offset_of(reading.source, node, reading.epoch, EARLIEST)
            last = await offset_of(reading.source, node, reading.epoch, LATEST)
        except Unreachable as problem:
            self._nodes.failed(node.request_link, str(problem))
            self._leaders.lost(reading)
            return None
        if first is None or last is None:
            self._leaders.lost(reading)
            return None
        return first, last
