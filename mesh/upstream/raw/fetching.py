"""Fetch, broker by broker: one request is parked there, with every partition that somebody waits for.

Each broker has two lanes. The first parks; what becomes wanted meanwhile goes over the second one at once, in requests
that are answered soon, until the first comes back and takes everything. A partition is in one request at a time.

Where the logs of many partitions hold more, each lane asks for half of these: the broker fills one answer while the
other one is shared out. With one request for all of them broker and mesh work in turn (docs/decisions/0059).

Nothing is asked for while nothing is to be consumed; what was asked for before still comes, one answer of each lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, assert_never
from uuid import UUID

import structlog

from mesh.records.batch import CorruptBatch
from mesh.records.spans import Gap, UpstreamPartition
from mesh.upstream.engine import EndReached, EngineEvent, Received, Together
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.problems import UpstreamProblem, name_of
from mesh.upstream.raw.health import Health
from mesh.upstream.raw.lanes import LARGEST_ANSWER, LARGEST_PART, Lane
from mesh.upstream.raw.leaders import Leaders
from mesh.upstream.raw.reading import (
    NO_LEADER,
    REFUSED_REST,
    REPLICA_FOR,
    REST,
    NotNow,
    NotTheLeader,
    OldFormat,
    Outcome,
    OutOfRange,
    Progress,
    ReadElsewhere,
    Reading,
    TruncationFound,
    outcome_of,
    says_nothing,
)
from mesh.upstream.raw.resets import Resets
from mesh.wire.client import messages
from mesh.wire.client.fetch import (
    FIRST_WITH_TOPIC_IDS,
    FetchAnswer,
    FetchFrom,
    decode_fetch_answer,
    fetch_request,
    version_for,
)
from mesh.wire.errors import ErrorCode, ProtocolError

log = structlog.get_logger(__name__)

SMALLEST_ANSWER: Final = 256 << 10
OVERDUE: Final = 2.0
"""Seconds after which it is asked who leads what a node does not answer for; it has longer to answer."""
LOOK_AT_HEALTH: Final = 1.0
LONGEST_THROTTLE: Final = 60.0
"""Seconds; brokers measure quotas over ten or so."""


class TooOld(Exception):
    """The broker has no version of Fetch that we speak."""


class Fetching:
    """The Fetch requests of the raw engine. readings: of all assigned partitions; the engine adds and removes them, and
    says so by `look_for_leaders`.

    tell: takes events; delegate: takes a partition whose records are of an old format. made_anew: told of partitions
    whose logs begin anew.
    """

    def __init__(
        self,
        nodes: Nodes,
        readings: dict[UpstreamPartition, Reading],
        read_committed: bool,
        buffer_bytes: int,
        buffers: ReceiveBuffers,
        tell: Callable[[EngineEvent], None],
        delegate: Callable[[Reading], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.made_anew: Callable[[UpstreamPartition], None] = lambda source: None
        self.health = Health(tell)
        self._nodes = nodes
        self._readings = readings
        self._read_committed = read_committed
        self._answer_bytes = min(max(buffer_bytes // 2, SMALLEST_ANSWER), LARGEST_ANSWER)
        self._buffers = buffers
        self._tell = tell
        self._delegate = delegate
        self._loop = loop
        self._consuming = True
        self._lanes: dict[BrokerLink, Lane] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._resets: Resets | None = None
        self._leaders = Leaders(nodes, readings, self.health, self._begin_anew, self._led)
        self._served = 0

    # What the engine says

    def set_consuming(self, consuming: bool) -> None:
        self._consuming = consuming
        if consuming:
            self.wake()

    def wake(self) -> None:
        """Something may have become wanted."""
        for lane in self._lanes.values():
            lane.woken.set()

    def look_for_leaders(self) -> None:
        self._leaders.look()

    def lost(self, reading: Reading, newer: tuple[int, int] | None = None) -> None:
        """Its leader is another, or cannot be reached."""
        self._leaders.lost(reading, newer)

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Keep leaders known, a pair of lanes for every broker that is read, and an eye on what cannot be."""
        self._tasks = tasks
        self._resets = Resets(
            self._nodes,
            self._readings,
            self._tell,
            lambda source: self.made_anew(source),
            self.wake,
            self._rest,
            tasks,
            self._leaders,
        )
        tasks.create_task(self._leaders.run())
        while True:
            await asyncio.sleep(LOOK_AT_HEALTH)
            wanted = {source for source, each in self._readings.items() if each.is_asked_for} if self._consuming else ()
            self.health.look(self._loop.time(), wanted)

    def _led(self) -> None:
        assert self._resets is not None
        self._resets.check(self._readings.values())
        self._open_lanes()
        self.wake()

    def _begin_anew(self, source: UpstreamPartition, leader: int, topic_id: UUID | None) -> None:
        assert self._resets is not None
        self._resets.begin_anew(source, leader, topic_id)

    def _open_lanes(self) -> None:
        assert self._tasks is not None
        now = self._loop.time()
        read = {each.node(now) for each in self._readings.values()}
        for node_id, node in self._nodes.nodes.items():
            if node_id in read and node.fetching not in self._lanes:
                for lane in Lane.pair(node.fetching, node.asking):
                    self._lanes[lane.link] = lane
                    self._tasks.create_task(self._run(node_id, lane))

    # A lane

    async def _run(self, node_id: int, lane: Lane) -> None:
        link = lane.link
        while any(link in (node.fetching, node.asking) for node in self._nodes.nodes.values()):
            now = self._loop.time()
            asked = {} if lane.leaves_all(now) else self._choose(node_id, lane)
            if lane.waits_until > now:
                self._loop.call_at(lane.waits_until + 0.001, lane.woken.set)
            if not asked:
                await lane.woken.wait()
                lane.woken.clear()
                continue
            answer = await self._answer(link, asked, lane.asks(asked))
            if answer is not None:
                self._nodes.worked(link)
                self._take(answer, asked)
            lane.ended()
            if answer is not None and answer.throttle_time_ms > 0:
                # The broker takes nothing from this connection before that is over (KIP-219).
                await asyncio.sleep(min(answer.throttle_time_ms / 1_000, LONGEST_THROTTLE))
        del self._lanes[link]
        lane.closed()

    async def _answer(self, link: BrokerLink, asked: dict[Reading, int], wait_ms: int) -> FetchAnswer | None:
        """None if there is none; what is to happen then has happened."""
        # A node that hangs closes no connection; but others may know by now who leads instead of it.
        overdue = self._loop.call_later(wait_ms / 1_000 + OVERDUE, self._leaders.doubt, asked)
        try:
            return await self._fetch(link, tuple(asked), wait_ms)
        except (Unreachable, ProtocolError) as problem:
            self._fail(link, asked, str(problem))
        except TooOld as problem:
            for reading in self._release(asked):
                log.warning("a partition is left to librdkafka", partition=str(reading.source), reason=str(problem))
                self._delegate(reading)
        finally:
            overdue.cancel()
            self._leaders.trust(asked)
        return None

    def _fail(self, link: BrokerLink, asked: dict[Reading, int], reason: str) -> None:
        self._nodes.failed(link, reason)
        now = self._loop.time()
        for reading in self._release(asked):
            self._rest(reading, REST)
            self.health.failed(reading.source, now, f"{link.address}: {reason}", UpstreamProblem.UNREADABLE)
            self.lost(reading)

    def _choose(self, node_id: int, lane: Lane) -> dict[Reading, int]:
        """What a request to this node is to ask for, in that order, and from where on."""
        if not self._consuming:
            return {}
        now = self._loop.time()
        chosen = [each for each in self._readings.values() if each.is_wanted(now) and each.node(now) == node_id]
        chosen.sort(key=lambda reading: reading.served)
        asked = {reading: reading.position for reading in lane.part_of(chosen)}
        for reading in asked:
            reading.flight = asked
        return asked

    def _release(self, asked: dict[Reading, int]) -> list[Reading]:
        """Those of a request that ended which are not asked for elsewhere by now."""
        ours = [reading for reading in asked if reading.flight is asked]
        for reading in ours:
            reading.flight = None
        return ours

    async def _fetch(self, link: BrokerLink, chosen: Sequence[Reading], wait_ms: int) -> FetchAnswer:
        served = (await link.versions()).get(messages.FETCH)
        version = version_for(served, all(each.topic_id is not None for each in chosen))
        if version is None:
            raise TooOld(f"the broker serves Fetch {served}; 4 and later are spoken")
        topics: dict[str | UUID, list[FetchFrom]] = {}
        for each in chosen:
            by_id = version >= FIRST_WITH_TOPIC_IDS and each.topic_id is not None
            name = each.topic_id if by_id and each.topic_id is not None else each.source.topic
            part = FetchFrom(each.source.partition, each.epoch, each.position, LARGEST_PART, each.last_epoch)
            topics.setdefault(name, []).append(part)
        request = fetch_request(
            version,
            topics,
            max_wait_ms=wait_ms,
            max_bytes=self._answer_bytes,
            read_committed=self._read_committed,
            rack=self._nodes.rack,
        )
        return decode_fetch_answer(await link.request(request, wait_ms / 1_000))

    # An answer

    def _take(self, answer: FetchAnswer, asked: dict[Reading, int]) -> None:
        ours = self._release(asked)
        by_place: dict[tuple[str | int, int], Reading] = {}
        for reading in ours:
            by_place[reading.source.topic, reading.source.partition] = reading
            if reading.topic_id is not None:
                by_place[reading.topic_id.int, reading.source.partition] = reading
        copied = self._buffers.is_full
        if answer.error_code:
            for reading in ours:
                self._refused(reading, answer.error_code)
        events: list[Received | EndReached] = []
        for fetched in answer.partitions:
            topic = fetched.topic if isinstance(fetched.topic, str) else fetched.topic.int
            reading_ = by_place.get((topic, fetched.partition))
            if reading_ is None or not self._is_current(reading_, asked[reading_]):
                continue
            if says_nothing(fetched, reading_, self._read_committed):
                self.health.worked(reading_.source)
                continue
            try:
                outcome = outcome_of(fetched, reading_.position, self._read_committed, copied)
            except CorruptBatch as problem:
                self.health.failed(reading_.source, self._loop.time(), str(problem), UpstreamProblem.UNREADABLE)
                self._rest(reading_, REFUSED_REST)
                continue
            self._apply(reading_, outcome, events)
        self._tell_together(events)

    def _is_current(self, reading: Reading, position: int) -> bool:
        known = self._readings.get(reading.source)
        return known is reading and not reading.is_stopped and reading.position == position

    def _apply(self, reading: Reading, outcome: Outcome, events: list[Received | EndReached]) -> None:
        match outcome:
            case Progress():
                self._progress(reading, outcome, events)
            case OldFormat(before):
                self._progress(reading, before, events)
                log.warning("a partition of an old record format is left to librdkafka", partition=str(reading.source))
                self._delegate(reading)
            case OutOfRange() | TruncationFound():
                self._reset(reading, outcome, events)
            case ReadElsewhere(node_id):
                reading.replica, reading.replica_until = node_id, self._loop.time() + REPLICA_FOR
                self._elsewhere(reading)
            case NotTheLeader(newer, is_missing):
                if not is_missing:  # told by whoever looks at the topics of the cluster
                    self.health.failed(
                        reading.source, self._loop.time(), "its leader moves", UpstreamProblem.UNREADABLE
                    )
                self._rest(reading, REST if newer is None else 0.0)
                self.lost(reading, newer)
            case NotNow(rest, error):
                if error:
                    self._refused(reading, error)
                else:
                    self._rest(reading, rest)
            case _:
                assert_never(outcome)

    def _reset(
        self, reading: Reading, outcome: OutOfRange | TruncationFound, events: list[Received | EndReached]
    ) -> None:
        assert self._resets is not None
        self._tell_together(events)  # what came of other partitions of this answer
        events.clear()
        self.health.worked(reading.source)
        reading.replica = NO_LEADER
        match outcome:
            case OutOfRange():
                self._resets.out_of_range(reading)
            case TruncationFound(end):
                self._resets.truncated(reading, end)

    def _tell_together(self, events: Sequence[Received | EndReached]) -> None:
        if events:
            self._tell(Together(tuple(events)))

    def _elsewhere(self, reading: Reading) -> None:
        """Its replica is to be read, if it is known where that is."""
        if reading.replica in self._nodes.nodes:
            self._led()
        else:
            reading.replica = NO_LEADER
            self._rest(reading, REST)
            self.lost(reading)

    def _refused(self, reading: Reading, error: int) -> None:
        forbidden = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        problem = UpstreamProblem.NOT_AUTHORIZED if forbidden else UpstreamProblem.UNREADABLE
        self.health.failed(reading.source, self._loop.time(), f"the broker answers with {name_of(error)}", problem)
        self._rest(reading, REFUSED_REST)

    def _progress(self, reading: Reading, progress: Progress, events: list[Received | EndReached]) -> None:
        reading.position = progress.position
        if progress.epoch >= 0:
            reading.last_epoch = progress.epoch
            reading.log_epoch = max(reading.log_epoch, progress.epoch)
        self.health.worked(reading.source)
        if progress.batches:
            self._served += 1
            reading.served = self._served
            events.append(Received(reading.source, progress.batches, "raw"))
        if progress.end is not None and progress.end != reading.told_end:
            reading.told_end = progress.end
            events.append(EndReached(reading.source, progress.end, Gap.EMPTY))

    def _rest(self, reading: Reading, seconds: float) -> None:
        # Woken a millisecond later: a lane that is woken by the last bit of a sum too early would sleep on for ever.
        reading.resting_until = self._loop.time() + seconds
        self._loop.call_later(seconds + 0.001, self.wake)
