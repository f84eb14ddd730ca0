"""Fetch, broker by broker: one request is parked there, with every partition that somebody waits for.

Each broker has two lanes. The first parks; what becomes wanted meanwhile goes over the second one at once, in requests
that are answered soon, until the first comes back and takes everything. A partition is in one request at a time.

Nothing is asked for while nothing is to be consumed; what was asked for before still comes, one answer of each lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, assert_never
from uuid import UUID

import structlog

from mesh.records.batch import CorruptBatch
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.upstream.buffers import ReceiveBuffers
from mesh.upstream.connection import BrokerLink, Unreachable
from mesh.upstream.engine import EndReached, EngineEvent, PositionReset, Received
from mesh.upstream.nodes import Nodes
from mesh.upstream.raw.bounds import EARLIEST, LATEST, offset_of
from mesh.upstream.raw.reading import (
    NO_LEADER,
    REFUSED_REST,
    REST,
    NotNow,
    NotTheLeader,
    OldFormat,
    Outcome,
    OutOfRange,
    Progress,
    Reading,
    outcome_of,
)
from mesh.wire.client import fetch, messages
from mesh.wire.client.fetch import FetchAnswer, FetchFrom, decode_fetch_answer, fetch_request
from mesh.wire.client.messages import TopicLeaders
from mesh.wire.errors import ProtocolError

log = structlog.get_logger(__name__)

PARKED_MS: Final = 500
SOON_MS: Final = 10
LARGEST_ANSWER: Final = 8 << 20
SMALLEST_ANSWER: Final = 256 << 10
LARGEST_PART: Final = 1 << 20
LOOK_AGAIN: Final = 0.2
"""Seconds between two looks for a leader that is missing."""


class Fetching:
    """readings: of all assigned partitions; the engine adds and removes them, and says so by `look_for_leaders`.

    tell: takes events; delegate: takes a partition whose records are of an old format.
    """

    def __init__(
        self,
        cluster: Nodes,
        readings: dict[UpstreamPartition, Reading],
        read_committed: bool,
        buffer_bytes: int,
        buffers: ReceiveBuffers,
        tell: Callable[[EngineEvent], None],
        delegate: Callable[[Reading], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.made_anew: Callable[[UpstreamPartition], None] = lambda source: None
        self._cluster = cluster
        self._readings = readings
        self._read_committed = read_committed
        self._answer_bytes = min(max(buffer_bytes // 2, SMALLEST_ANSWER), LARGEST_ANSWER)
        self._buffers = buffers
        self._tell = tell
        self._delegate = delegate
        self._loop = loop
        self._consuming = True
        self._lanes: dict[BrokerLink, asyncio.Event] = {}
        self._look = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._served = 0
        self._complained: set[tuple[UpstreamPartition, int]] = set()

    # What the engine says

    def set_consuming(self, consuming: bool) -> None:
        self._consuming = consuming
        if consuming:
            self.wake()

    def wake(self) -> None:
        """Something may have become wanted."""
        for event in self._lanes.values():
            event.set()

    def look_for_leaders(self) -> None:
        self._look.set()

    def lost(self, reading: Reading) -> None:
        """Its leader is another, or cannot be reached."""
        reading.leader = NO_LEADER
        self._look.set()

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Keep leaders known, and a pair of lanes for every broker that leads something."""
        self._tasks = tasks
        while True:
            await self._look.wait()
            self._look.clear()
            topics = {each.source.topic for each in self._readings.values() if each.leader == NO_LEADER}
            if not topics:
                continue
            try:
                layout = await self._cluster.layout(topics)
            except Unreachable:
                self._look_later()
                continue
            for topic in layout.topics:
                self._lead(topic)
            self._open_lanes(tasks)
            self.wake()
            if any(each.leader == NO_LEADER for each in self._readings.values()):
                self._look_later()

    # Leaders

    def _look_later(self) -> None:
        self._loop.call_later(LOOK_AGAIN, self._look.set)

    def _lead(self, topic: TopicLeaders) -> None:
        for partition in topic.partitions:
            source = UpstreamPartition(self._cluster.name, TopicName(topic.name), partition.partition)
            reading = self._readings.get(source)
            if reading is None or partition.error_code or partition.leader not in self._cluster.nodes:
                continue
            if reading.topic_id is not None and topic.topic_id != reading.topic_id:
                self._begin_anew(source, partition.leader, topic.topic_id)
            elif partition.epoch < 0 or partition.epoch >= reading.epoch:  # else it is older than what we know
                reading.leader, reading.epoch, reading.topic_id = partition.leader, partition.epoch, topic.topic_id

    def _begin_anew(self, source: UpstreamPartition, leader: int, topic_id: UUID | None) -> None:
        self.made_anew(source)
        reading = self._readings[source] = Reading(source, 0, topic_id, leader)
        reading.suspended = True
        self._spawn(self._reset(reading, "the topic was deleted and made anew"))

    def _open_lanes(self, tasks: asyncio.TaskGroup) -> None:
        for node_id, node in self._cluster.nodes.items():
            if any(each.leader == node_id for each in self._readings.values()) and node.fetching not in self._lanes:
                for link, wait in ((node.fetching, PARKED_MS), (node.asking, SOON_MS)):
                    self._lanes[link] = asyncio.Event()
                    tasks.create_task(self._lane(node_id, link, wait))

    # A lane

    async def _lane(self, node_id: int, link: BrokerLink, wait_ms: int) -> None:
        woken = self._lanes[link]
        while any(link in (node.fetching, node.asking) for node in self._cluster.nodes.values()):
            chosen = self._choose(node_id)
            if not chosen:
                await woken.wait()
                woken.clear()
                continue
            asked = {reading: reading.position for reading in chosen}
            try:
                answer = await self._fetch(link, chosen, wait_ms)
            except (Unreachable, ProtocolError) as problem:
                self._cluster.failed(link, str(problem))
                self._release(asked, self._loop.time() + REST)
                for reading in asked:
                    self.lost(reading)
                continue
            self._cluster.worked(link)
            await self._take(answer, asked)
        del self._lanes[link]

    def _choose(self, node_id: int) -> list[Reading]:
        if not self._consuming:
            return []
        now = self._loop.time()
        chosen = [each for each in self._readings.values() if each.leader == node_id and each.is_wanted(now)]
        chosen.sort(key=lambda reading: reading.served)
        for reading in chosen:
            reading.in_flight = True
        return chosen

    def _release(self, asked: dict[Reading, int], rest_until: float = 0.0) -> None:
        for reading in asked:
            reading.in_flight = False
            if rest_until:
                self._rest(reading, rest_until - self._loop.time())

    async def _fetch(self, link: BrokerLink, chosen: Sequence[Reading], wait_ms: int) -> FetchAnswer:
        served = (await link.versions()).get(messages.FETCH)
        version = min(served.highest if served else 0, fetch.HIGHEST)
        if version >= fetch.FIRST_WITH_TOPIC_IDS and any(each.topic_id is None for each in chosen):
            version = fetch.FIRST_WITH_TOPIC_IDS - 1
        if version < fetch.LOWEST or (served and served.lowest > version):
            raise Unreachable(f"the broker is too old, or too new: it serves Fetch {served}")
        topics: dict[str | UUID, list[FetchFrom]] = {}
        for each in chosen:
            by_id = version >= fetch.FIRST_WITH_TOPIC_IDS and each.topic_id is not None
            name = each.topic_id if by_id and each.topic_id is not None else each.source.topic
            part = FetchFrom(each.source.partition, each.epoch, each.position, LARGEST_PART)
            topics.setdefault(name, []).append(part)
        request = fetch_request(
            version,
            topics,
            max_wait_ms=wait_ms,
            max_bytes=self._answer_bytes,
            read_committed=self._read_committed,
        )
        return decode_fetch_answer(await link.request(request, wait_ms / 1_000))

    # An answer

    async def _take(self, answer: FetchAnswer, asked: dict[Reading, int]) -> None:
        self._release(asked)
        by_place: dict[tuple[str | UUID | None, int], Reading] = {}
        for reading in asked:
            by_place[reading.source.topic, reading.source.partition] = reading
            by_place[reading.topic_id, reading.source.partition] = reading
        copied = self._buffers.is_full
        if answer.error_code:
            self._release(asked, self._loop.time() + REFUSED_REST)
        events: list[EngineEvent] = []
        for fetched in answer.partitions:
            reading_ = by_place.get((fetched.topic, fetched.partition))
            if reading_ is None or not self._is_current(reading_, asked[reading_]):
                continue
            try:
                outcome = outcome_of(fetched, reading_.position, self._read_committed, copied)
            except CorruptBatch as problem:
                self._complain(reading_, -1, str(problem))
                self._rest(reading_, REFUSED_REST)
                continue
            self._apply(reading_, outcome, events)
        for event in events:
            self._tell(event)
        if answer.throttle_time_ms > 0:
            # The broker takes nothing from this connection before that is over (KIP-219).
            await asyncio.sleep(answer.throttle_time_ms / 1_000)

    def _is_current(self, reading: Reading, position: int) -> bool:
        known = self._readings.get(reading.source)
        return known is reading and not reading.suspended and reading.position == position

    def _apply(self, reading: Reading, outcome: Outcome, events: list[EngineEvent]) -> None:
        match outcome:
            case Progress():
                self._progress(reading, outcome, events)
            case OldFormat(before):
                self._progress(reading, before, events)
                log.warning("a partition of an old record format is left to librdkafka", partition=str(reading.source))
                self._delegate(reading)
            case OutOfRange():
                reading.suspended = True
                self._spawn(self._reset(reading, "the log was cut off"))
            case NotTheLeader():
                self._rest(reading, REST)
                self.lost(reading)
            case NotNow(rest, error):
                if error:
                    self._complain(reading, error, f"the broker answers with error {error}")
                self._rest(reading, rest)
            case _:
                assert_never(outcome)

    def _progress(self, reading: Reading, progress: Progress, events: list[EngineEvent]) -> None:
        reading.position = progress.position
        if progress.batches:
            self._served += 1
            reading.served = self._served
            events.append(Received(reading.source, progress.batches, "raw"))
        if progress.end is not None and progress.end != reading.told_end:
            reading.told_end = progress.end
            events.append(EndReached(reading.source, progress.end))

    async def _reset(self, reading: Reading, reason: str) -> None:
        """Go on where the log begins, if it does not have the position; `suspended` until then."""
        while self._readings.get(reading.source) is reading:
            bounds = await self._bounds(reading)
            if bounds is None:
                await asyncio.sleep(REST)
                continue
            begins, ends = bounds
            if self._readings.get(reading.source) is not reading:
                return
            reading.suspended = False
            anew = reading.position == 0 and reason.startswith("the topic")
            if anew or reading.position > ends:
                if not anew:
                    self.made_anew(reading.source)  # it may be that; and is not to be told twice
                reading.position, reading.told_end = begins, -1
                self._tell(PositionReset(reading.source, begins, reason))
            else:  # what is missing was deleted, by retention or on demand
                reading.position = max(reading.position, begins)
                self._tell(EndReached(reading.source, reading.position))
            self.wake()
            return

    async def _bounds(self, reading: Reading) -> tuple[int, int] | None:
        node = self._cluster.nodes.get(reading.leader)
        if node is None:
            self._look.set()
            return None
        try:
            first = await offset_of(reading.source, node, reading.epoch, EARLIEST)
            last = await offset_of(reading.source, node, reading.epoch, LATEST)
        except Unreachable as problem:
            self._cluster.failed(node.asking, str(problem))
            self.lost(reading)
            return None
        if first is None or last is None:
            self.lost(reading)
            return None
        return first, last

    def _rest(self, reading: Reading, seconds: float) -> None:
        reading.resting_until = self._loop.time() + seconds
        self._loop.call_later(seconds + 0.001, self.wake)

    def _complain(self, reading: Reading, error: int, detail: str) -> None:
        if (reading.source, error) not in self._complained:
            self._complained.add((reading.source, error))
            log.error("a partition cannot be read", partition=str(reading.source), detail=detail)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)
