"""Fetch, broker by broker: one request waits at each, with every wanted partition.

Each broker has two lanes. The first one parks its request at the broker. Partitions that become wanted meanwhile go
over the second one at once, in requests with short waits, until the first one is answered and takes over all of them. A
partition is in one request at a time. If the logs of many partitions hold more, each lane asks for half of these: the
broker fills one answer while the mesh shares out the other one. With one request for all of them, broker and mesh would
work in turn (docs/decisions/0059). While nothing is consumed, no request is sent; earlier requests may still bring one
answer for each lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, assert_never
from uuid import UUID

import structlog

from mesh.records.batch import CorruptBatch
from mesh.records.spans import Gap, UpstreamPartition
from mesh.tasks import endless, finite
from mesh.upstream.engine import EndReached, EngineEvent, EventBatch, Received
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.problems import UpstreamProblem, name_of
from mesh.upstream.raw.health import Health
from mesh.upstream.raw.lanes import LARGEST_ANSWER, LARGEST_PART, Lane
from mesh.upstream.raw.leaders import Leaders
from mesh.upstream.raw.reading import (
    NO_NODE,
    REFUSED_RETRY_DELAY,
    REPLICA_FOR,
    RETRY_DELAY,
    NotTheLeader,
    OldFormatFound,
    Outcome,
    OutOfRange,
    Progress,
    ReadElsewhere,
    Reading,
    RetryLater,
    TruncationFound,
    is_unchanged,
    outcome_of,
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
"""Seconds without an answer after which the leaders are looked up; the node still has time to answer."""
LOOK_AFTER: Final = 1.0
"""Seconds between two looks at the nodes of all partitions and at their health."""
LONGEST_THROTTLE: Final = 60.0
"""Seconds. It exceeds the window of about ten seconds in which brokers measure quotas."""


class TooOld(Exception):
    """Raised for a broker that serves no version of Fetch that the mesh speaks."""


class Fetching:
    """The Fetch requests of the raw engine. readings: those of all assigned partitions; the engine adds and removes
    them, and then calls `look_for_leaders`.

    report: called with each event. delegate: called with a partition whose records have an old format. recreated:
    called with each partition whose log starts again.
    """

    def __init__(
        self,
        nodes: Nodes,
        readings: dict[UpstreamPartition, Reading],
        read_committed: bool,
        buffer_bytes: int,
        buffers: ReceiveBuffers,
        report: Callable[[EngineEvent], None],
        delegate: Callable[[Reading], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.recreated: Callable[[UpstreamPartition], None] = lambda source: None
        self.health = Health(report)
        self._nodes = nodes
        self._readings = readings
        self._read_committed = read_committed
        self._answer_bytes = min(max(buffer_bytes // 2, SMALLEST_ANSWER), LARGEST_ANSWER)
        self._buffers = buffers
        self._report = report
        self._delegate = delegate
        self._loop = loop
        self._consuming = True
        self._lanes: dict[BrokerLink, Lane] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._resets: Resets | None = None
        self._leaders = Leaders(nodes, readings, self.health, self._start_over, self._led)
        self._served = 0

    # Called by the engine

    def set_consuming(self, consuming: bool) -> None:
        self._consuming = consuming
        if consuming:
            self.wake()

    def wake(self) -> None:
        """Lets all lanes check for partitions that have become wanted."""
        for lane in self._lanes.values():
            lane.woken.set()

    def look_for_leaders(self) -> None:
        self._leaders.look_up()

    def lost(self, reading: Reading, newer: tuple[int, int] | None = None) -> None:
        """Notes that another node leads a partition, or that its leader cannot be reached. newer: the leader according
        to that node."""
        self._leaders.lost(reading, newer)

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Keeps leaders known, keeps two lanes for each broker that is read, and watches for partitions that cannot be
        read."""
        self._tasks = tasks
        self._resets = Resets(
            self._nodes,
            self._readings,
            self._report,
            lambda source: self.recreated(source),
            self.wake,
            self._delay,
            tasks,
            self._leaders,
        )
        tasks.create_task(endless(self._leaders.run))
        while True:
            await asyncio.sleep(LOOK_AFTER)
            self._leave_replicas(self._loop.time())
            self._led()
            wanted = {source for source, each in self._readings.items() if each.is_asked_for} if self._consuming else ()
            self.health.check(self._loop.time(), wanted)

    def _leave_replicas(self, now: float) -> None:
        """Lets the leaders be asked again after `REPLICA_FOR`, and for replicas that are no longer in the cluster."""
        for reading in self._readings.values():
            if reading.replica != NO_NODE and (
                now >= reading.replica_until or reading.replica not in self._nodes.nodes
            ):
                reading.replica = NO_NODE

    def _led(self) -> None:
        """Lets partitions be read whose nodes have become known, or have changed."""
        assert self._resets is not None
        self._resets.check(self._readings.values())
        self._open_lanes()
        self.wake()

    def _start_over(self, source: UpstreamPartition, leader: int, topic_id: UUID | None) -> None:
        assert self._resets is not None
        self._resets.start_over(source, leader, topic_id)

    def _open_lanes(self) -> None:
        assert self._tasks is not None
        read = {each.node for each in self._readings.values()}
        for node_id, node in self._nodes.nodes.items():
            if node_id in read and node.fetch_link not in self._lanes:
                for lane in Lane.pair(node.fetch_link, node.request_link):
                    self._lanes[lane.link] = lane
                    self._tasks.create_task(finite(self._run, node_id, lane))

    # A lane

    async def _run(self, node_id: int, lane: Lane) -> None:
        link = lane.link
        while any(link in (node.fetch_link, node.request_link) for node in self._nodes.nodes.values()):
            now = self._loop.time()
            asked = {} if lane.decide_to_wait(now) else self._choose(node_id, lane)
            if lane.waits_until > now:
                self._loop.call_at(lane.waits_until + 0.001, lane.woken.set)
            if not asked:
                await lane.woken.wait()
                lane.woken.clear()
                continue
            answer = await self._answer(link, asked, lane.request_sent(asked))
            if answer is not None:
                self._nodes.worked(link)
                self._take(answer, asked)
            lane.request_ended()
            if any(reading.node not in (node_id, NO_NODE) for reading in asked):
                self._led()  # wakes the lanes of the partitions' new nodes; otherwise only this node's would look again
            if answer is not None and answer.throttle_time_ms > 0:
                # The broker reads nothing from this connection before that time is over (KIP-219).
                await asyncio.sleep(min(answer.throttle_time_ms / 1_000, LONGEST_THROTTLE))
        del self._lanes[link]
        lane.closed()

    async def _answer(self, link: BrokerLink, asked: dict[Reading, int], wait_ms: int) -> FetchAnswer | None:
        """Returns the answer to a Fetch; None if there is none, after handling the failure."""
        # A node that hangs closes no connection. Other brokers may know a new leader by now.
        overdue = self._loop.call_later(wait_ms / 1_000 + OVERDUE, self._leaders.doubt, asked)
        try:
            return await self._fetch(link, tuple(asked), wait_ms)
        except (Unreachable, ProtocolError) as problem:
            self._fail(link, asked, str(problem))
        except TooOld as problem:
            for reading in self._release(asked):
                log.warning("partition read by librdkafka", partition=str(reading.source), reason=str(problem))
                self._delegate(reading)
        finally:
            overdue.cancel()
            self._leaders.trust(asked)
        return None

    def _fail(self, link: BrokerLink, asked: dict[Reading, int], reason: str) -> None:
        self._nodes.failed(link, reason)
        now = self._loop.time()
        for reading in self._release(asked):
            self._delay(reading, RETRY_DELAY)
            self.health.failed(reading.source, now, f"{link.address}: {reason}", UpstreamProblem.UNREADABLE)
            self._left(reading)

    def _choose(self, node_id: int, lane: Lane) -> dict[Reading, int]:
        """Returns the readings for a request to this node, in its order, each with its position."""
        if not self._consuming:
            return {}
        now = self._loop.time()
        chosen = [each for each in self._readings.values() if each.is_wanted(now) and each.node == node_id]
        chosen.sort(key=lambda reading: reading.last_served)
        asked = {reading: reading.position for reading in lane.select(chosen)}
        for reading in asked:
            reading.request = asked
        return asked

    def _release(self, asked: dict[Reading, int]) -> list[Reading]:
        """Ends a request, and returns its readings that are not in another request by now."""
        ours = [reading for reading in asked if reading.request is asked]
        for reading in ours:
            reading.request = None
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
            if is_unchanged(fetched, reading_, self._read_committed):
                self.health.worked(reading_.source)
                continue
            try:
                outcome = outcome_of(fetched, reading_.position, self._read_committed, copied)
            except CorruptBatch as problem:
                self.health.failed(reading_.source, self._loop.time(), str(problem), UpstreamProblem.UNREADABLE)
                self._delay(reading_, REFUSED_RETRY_DELAY)
                continue
            self._apply(reading_, outcome, events)
        self._report_batch(events)

    def _is_current(self, reading: Reading, position: int) -> bool:
        known = self._readings.get(reading.source)
        return known is reading and not reading.is_stopped and reading.position == position

    def _apply(self, reading: Reading, outcome: Outcome, events: list[Received | EndReached]) -> None:
        match outcome:
            case Progress():
                self._progress(reading, outcome, events)
            case OldFormatFound(before):
                self._progress(reading, before, events)
                log.warning("partition read by librdkafka: old record format", partition=str(reading.source))
                self._delegate(reading)
            case OutOfRange() | TruncationFound():
                self._reset(reading, outcome, events)
            case ReadElsewhere(node_id):
                self._elsewhere(reading, node_id)
            case NotTheLeader(newer, is_missing):
                if not is_missing:  # the catalog reports missing topics
                    self.health.failed(
                        reading.source, self._loop.time(), "its leader moves", UpstreamProblem.UNREADABLE
                    )
                self._delay(reading, RETRY_DELAY if newer is None else 0.0)
                self._left(reading, newer)
            case RetryLater(delay, error):
                if error:
                    self._refused(reading, error)
                else:
                    self._delay(reading, delay)
            case _:
                assert_never(outcome)

    def _reset(
        self, reading: Reading, outcome: OutOfRange | TruncationFound, events: list[Received | EndReached]
    ) -> None:
        assert self._resets is not None
        self._report_batch(events)  # first, the events of other partitions of this answer
        events.clear()
        self.health.worked(reading.source)
        reading.replica = NO_NODE
        match outcome:
            case OutOfRange():
                self._resets.out_of_range(reading)
            case TruncationFound(end):
                self._resets.truncated(reading, end)

    def _report_batch(self, events: Sequence[Received | EndReached]) -> None:
        if events:
            self._report(EventBatch(tuple(events)))

    def _elsewhere(self, reading: Reading, replica: int) -> None:
        """Reads from a replica, if its address is known."""
        if replica in self._nodes.nodes:
            reading.replica, reading.replica_until = replica, self._loop.time() + REPLICA_FOR
        else:
            self._delay(reading, RETRY_DELAY)
            self.lost(reading)

    def _left(self, reading: Reading, newer: tuple[int, int] | None = None) -> None:
        """Notes that the node that was asked cannot be read: a replica, or else the leader."""
        if reading.replica != NO_NODE:
            reading.replica = NO_NODE
        else:
            self.lost(reading, newer)

    def _refused(self, reading: Reading, error: int) -> None:
        forbidden = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        problem = UpstreamProblem.NOT_AUTHORIZED if forbidden else UpstreamProblem.UNREADABLE
        self.health.failed(reading.source, self._loop.time(), f"the broker answers with {name_of(error)}", problem)
        self._delay(reading, REFUSED_RETRY_DELAY)

    def _progress(self, reading: Reading, progress: Progress, events: list[Received | EndReached]) -> None:
        reading.position = progress.position
        if progress.epoch >= 0:
            reading.last_epoch = progress.epoch
            reading.log_epoch = max(reading.log_epoch, progress.epoch)
        self.health.worked(reading.source)
        if progress.batches:
            self._served += 1
            reading.last_served = self._served
            events.append(Received(reading.source, progress.batches, "raw"))
        if progress.end is not None and progress.end != reading.reported_end:
            reading.reported_end = progress.end
            events.append(EndReached(reading.source, progress.end, Gap.EMPTY))

    def _delay(self, reading: Reading, seconds: float) -> None:
        # Wakes a millisecond late: a lane that rounding wakes too early would sleep forever.
        reading.resting_until = self._loop.time() + seconds
        self._loop.call_later(seconds + 0.001, self.wake)
