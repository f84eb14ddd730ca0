"""Where reading goes on when the log does not have what was to come next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

from mesh.records.spans import Gap, UpstreamPartition
from mesh.upstream.engine import EndReached, EngineEvent, PositionReset, Truncated
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.raw.leaders import Leaders
from mesh.upstream.raw.log_bounds import EARLIEST, LATEST, end_of_epoch, offset_of, topic_id_of
from mesh.upstream.raw.reading import PASSING, REST, Reading

_ANEW = "the topic was deleted and made anew"
_CUT_OFF = "the log was cut off, or the topic made anew: brokers without topic ids do not tell"


class Resets:
    """Finds out where a partition goes on whose log is not what it was. tell: takes events; made_anew: told of
    partitions that begin anew; go_on: some may be read again; rest: lets one rest for so many seconds, and go on
    then."""

    def __init__(
        self,
        nodes: Nodes,
        readings: dict[UpstreamPartition, Reading],
        tell: Callable[[EngineEvent], None],
        made_anew: Callable[[UpstreamPartition], None],
        go_on: Callable[[], None],
        rest: Callable[[Reading, float], None],
        tasks: asyncio.TaskGroup,
        leaders: Leaders,
    ) -> None:
        self._nodes = nodes
        self._readings = readings
        self._tell = tell
        self._made_anew = made_anew
        self._go_on = go_on
        self._rest = rest
        self._tasks = tasks
        self._leaders = leaders
        self._checked: set[Reading] = set()
        """Those whose logs are being looked at."""

    def begin_anew(self, source: UpstreamPartition, leader: int, topic_id: UUID | None) -> None:
        """Its topic is another one than before."""
        self._made_anew(source)
        is_revoked = self._readings[source].revoked
        reading = self._readings[source] = Reading(source, 0, topic_id, leader, revoked=is_revoked)
        reading.suspended = reading.anew = True
        self._tasks.create_task(self._from_beginning(reading))

    def out_of_range(self, reading: Reading) -> None:
        """The log does not have the position, or knows nothing of the epoch in front of it."""
        reading.suspended = True
        reading.last_epoch = -1
        self._tasks.create_task(self._where_the_log_is(reading))

    def truncated(self, reading: Reading, end: int) -> None:
        """Another leader's log goes another way from `end` on (an unclean election): what was read there is no more."""
        reading.last_epoch = reading.log_epoch = -1
        if end < reading.position:
            reading.position, reading.told_end = end, -1
        self._tell(Truncated(reading.source, end))

    def check(self, readings: Iterable[Reading]) -> None:
        """Of those whose leaders are known, find out whether their logs are still the ones that they were."""
        for each in readings:
            if each.unchecked and each not in self._checked and each.leader in self._nodes.nodes:
                self._checked.add(each)
                self._tasks.create_task(self._check(each))

    async def _check(self, reading: Reading) -> None:
        """`unchecked` until then."""
        try:
            while self._readings.get(reading.source) is reading:
                end = await self._end_of_epoch(reading)
                if self._readings.get(reading.source) is not reading or reading.is_stopped:
                    return  # who is assigned it next asks again
                if end is not None:
                    reading.unchecked = False
                    if 0 <= end < reading.position:
                        self.truncated(reading, end)
                    elif end >= 0:
                        self._tell(Truncated(reading.source, end))
                    self._go_on()
                    return
                await asyncio.sleep(REST)
        finally:
            self._checked.discard(reading)

    async def _end_of_epoch(self, reading: Reading) -> int | None:
        """-1 if nobody can tell; None if it is to be asked again."""
        node = self._nodes.nodes.get(reading.leader)
        if node is None:
            self._leaders.look()
            return None
        try:
            error, end = await end_of_epoch(reading.source, node, reading.epoch, reading.log_epoch)
        except Unreachable as problem:
            self._nodes.failed(node.asking, str(problem))
            self._leaders.lost(reading)
            return None
        if error in PASSING:
            self._leaders.lost(reading)
            return None
        return -1 if error else end

    async def _from_beginning(self, reading: Reading) -> None:
        if (bounds := await self._bounds(reading)) is not None:
            reading.suspended = reading.anew = False
            self._reset(reading, bounds[0], _ANEW)

    async def _where_the_log_is(self, reading: Reading) -> None:
        """`suspended` until then."""
        if (bounds := await self._bounds(reading)) is None:
            return
        begins, ends = bounds
        if reading.position > ends:
            await self._cut_off(reading, begins, ends)
            return
        reading.suspended = False
        # What is missing was deleted, by retention or on demand; or it is there, and a replica had not got it yet.
        if reading.position >= begins:
            self._rest(reading, REST)
        reading.position = max(reading.position, begins)
        self._tell(EndReached(reading.source, reading.position, Gap.DELETED))
        self._go_on()

    async def _cut_off(self, reading: Reading, begins: int, ends: int) -> None:
        """It was read beyond its end: of the same topic, the log was truncated; of another one, it begins anew. Without
        ids nobody knows: then it comes from its beginning, for what is lost does not come again."""
        topic_id = await self._topic_id(reading)
        if self._readings.get(reading.source) is not reading:
            return
        if topic_id is None or reading.topic_id is None:
            reading.suspended = False
            self._made_anew(reading.source)  # it may be that; and is not to be told twice
            self._reset(reading, begins, _CUT_OFF)
        elif topic_id != reading.topic_id:
            self.begin_anew(reading.source, reading.leader, topic_id)
        else:
            await self._truncate(reading, ends)

    async def _truncate(self, reading: Reading, ends: int) -> None:
        """The log may have grown again above where it was truncated; only the epoch of what was read tells."""
        epoch_ends: int | None = None if reading.log_epoch >= 0 else -1
        while epoch_ends is None:
            epoch_ends = await self._end_of_epoch(reading)
            if self._readings.get(reading.source) is not reading:
                return
            if epoch_ends is None:
                await asyncio.sleep(REST)
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
                    self._nodes.failed(node.asking, str(problem))
                    self._leaders.lost(reading)
            self._leaders.look()
            await asyncio.sleep(REST)
        return None

    def _reset(self, reading: Reading, start: int, reason: str) -> None:
        reading.position, reading.told_end, reading.log_epoch = start, -1, -1
        self._tell(PositionReset(reading.source, start, reason))
        self._go_on()

    async def _bounds(self, reading: Reading) -> tuple[int, int] | None:
        """Where its log begins and ends, when somebody says; None if the partition is not ours any more."""
        while self._readings.get(reading.source) is reading:
            bounds = await self._bounds_now(reading)
            if bounds is not None and self._readings.get(reading.source) is reading:
                return bounds
            await asyncio.sleep(REST)
        return None

    async def _bounds_now(self, reading: Reading) -> tuple[int, int] | None:
        node = self._nodes.nodes.get(reading.leader)
        if node is None:
            self._leaders.look()
            return None
        try:
            first = await offset_of(reading.source, node, reading.epoch, EARLIEST)
            last = await offset_of(reading.source, node, reading.epoch, LATEST)
        except Unreachable as problem:
            self._nodes.failed(node.asking, str(problem))
            self._leaders.lost(reading)
            return None
        if first is None or last is None:
            self._leaders.lost(reading)
            return None
        return first, last
