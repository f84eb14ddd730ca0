"""An engine whose records interceptors see before the pool does.

What comes of a partition that has some waits in a lane until they have seen it, in its order; all else passes. A record
that is dropped is one that is not there: offsets without a record count as acknowledged. Where interceptors fail, and
may not be passed over, the lane stands, and is tried again; other partitions go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from mesh.interceptors.chain import Judged
from mesh.interceptors.frames import Task
from mesh.interceptors.selection import Chosen, Selection
from mesh.interceptors.spi import On, Where
from mesh.memory import MemoryBudget
from mesh.pool.common.ids import GroupId
from mesh.records.batch import Batch
from mesh.records.fetched import cut_batches
from mesh.records.spans import CommitPosition, Span, TopicName, UpstreamPartition
from mesh.runtime.interception.judging import Judges, Work
from mesh.security.principals import ANONYMOUS
from mesh.upstream.engine import (
    Assigned,
    CommitToken,
    EndReached,
    Engine,
    EngineEvent,
    EngineFailed,
    Lost,
    PositionReset,
    Received,
    Reread,
    RereadToken,
    Together,
    Truncated,
)

MOST_WAITING: Final = 4 << 20
"""Bytes of one partition that wait; with more, its engine is to bring no more of it."""
MOST_OF_ENGINE: Final = 64 << 20
"""The same of all partitions of an engine, after which it is to bring nothing."""
FIRST_REST: Final = 1.0
MOST_REST: Final = 30.0
"""Seconds until records are tried again whose interceptors failed; twice as many each time."""

Deliver: TypeAlias = Callable[[EngineEvent], None]
NumberOf: TypeAlias = Callable[[UpstreamPartition], tuple[TopicName, int] | None]
"""The topic and partition under which clients see an upstream partition."""
OfPartition: TypeAlias = Received | EndReached | Reread | Truncated


@dataclass(frozen=True, slots=True)
class Intake:
    """The interceptors of what comes into the pools of a virtual cluster. turns: as many as may be at work at once; who
    waits for one loses no time."""

    judges: Judges
    selection: Selection
    number: NumberOf
    turns: asyncio.Semaphore

    def place(self, source: UpstreamPartition) -> tuple[str, int]:
        return self.number(source) or (source.topic, source.partition)

    def sees(self, topic: str) -> bool:
        return self.selection.chosen(topic, On.FETCH, ANONYMOUS) is not None

    def chosen(self, source: UpstreamPartition) -> Chosen | None:
        return self.selection.chosen(self.place(source)[0], On.FETCH, ANONYMOUS)


class _Lane:
    """What came of one partition and has not been seen yet; rereads have one of their own."""

    def __init__(self) -> None:
        self.events: deque[OfPartition] = deque()
        self.size = 0
        self.working: asyncio.Task[None] | None = None


class InterceptedEngine:
    """An engine, and the interceptors of what it brings. Implements `mesh.upstream.engine.Engine`.

    make: the engine, which tells what happens to a function. rest: the first seconds until a failure is tried again.
    """

    def __init__(
        self,
        make: Callable[[Deliver], Engine],
        deliver: Deliver,
        intake: Intake,
        group: GroupId,
        memory: MemoryBudget,
        rest: float = FIRST_REST,
    ) -> None:
        self._deliver: Final = deliver
        self._intake: Final = intake
        self._group: Final = group
        self._memory: Final = memory
        self._rest: Final = rest
        self._lanes: dict[tuple[UpstreamPartition, bool], _Lane] = {}
        self._waiting = 0
        """Bytes in all lanes."""
        self._paused_by_pool: set[UpstreamPartition] = set()
        self._paused_here: set[UpstreamPartition] = set()
        self._is_wanted = True
        self._is_held_up = False
        self._engine: Final = make(self._happened)

    # Commands of the pool

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        self._engine.subscribe(topics)

    def set_consuming(self, consuming: bool) -> None:
        self._is_wanted = consuming
        self._engine.set_consuming(consuming and not self._is_held_up)

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._paused_by_pool |= partitions
        self._engine.pause(partitions)

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._paused_by_pool -= partitions
        if free := partitions - self._paused_here:
            self._engine.resume(free)

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        self._engine.commit(token, positions)

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        self._engine.reread(token, partition, span)

    def set_eager(self, eager: bool) -> None:
        self._engine.set_eager(eager)

    async def close(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> Mapping[UpstreamPartition, int]:
        self._forget({source for source, _ in self._lanes})
        return await self._engine.close(positions)

    # What the engine tells

    def _happened(self, event: EngineEvent) -> None:
        match event:
            case Received() | EndReached() | Reread():
                if not self._is_taken(event):
                    self._deliver(event)
            case Together(events):
                passed = tuple(each for each in events if not self._is_taken(each))
                if passed:
                    self._deliver(event if len(passed) == len(events) else Together(passed))
            case Truncated():
                self._truncated(event)
            case Assigned(partitions):
                resumed = {each.partition for each in partitions if each.resumed}
                self._forget({source for source, _ in self._lanes} - resumed)
                self._paused_by_pool -= {each.partition for each in partitions}
                self._deliver(event)
                if self._paused_here:
                    self._engine.pause(frozenset(self._paused_here))
            case Lost(sources):
                self._forget(sources)
                self._deliver(event)
            case PositionReset(source):
                self._drop(source)
                self._deliver(event)
            case EngineFailed():
                self._forget({source for source, _ in self._lanes})
                self._deliver(event)
            case _:
                self._deliver(event)

    def _is_taken(self, event: Received | EndReached | Reread) -> bool:
        """Whether it waits."""
        key = event.partition, isinstance(event, Reread)
        has_records = not isinstance(event, EndReached) and len(event.batches) > 0
        if key not in self._lanes and not (has_records and self._intake.chosen(event.partition) is not None):
            return False
        self._put(key, event)
        return True

    def _truncated(self, event: Truncated) -> None:
        """Nothing is left of what comes after the place where the logs part. Spans are asked for anew by the pool."""
        source, offset = event.partition, event.offset
        kept = [_below(each, offset) for each in self._events(source)]
        self._drop(source)
        for each in kept:
            if each is not None:
                self._put((source, False), each)
        if kept:
            self._put((source, False), event)
        else:
            self._deliver(event)

    # Lanes

    def _events(self, source: UpstreamPartition) -> tuple[OfPartition, ...]:
        lane = self._lanes.get((source, False))
        return tuple(lane.events) if lane is not None else ()

    def _put(self, key: tuple[UpstreamPartition, bool], event: OfPartition) -> None:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        lane.events.append(event)
        self._weigh(key, lane, _size(event))
        if lane.working is None:
            work = self._work(key, lane)
            lane.working = asyncio.get_running_loop().create_task(work, name=f"intercept {key[0]}")

    def _forget(self, sources: Iterable[UpstreamPartition]) -> None:
        """They are not ours any more, or assigned anew: whatever was told of pauses is void."""
        gone = frozenset(sources)
        self._paused_here -= gone
        for source in gone:
            self._drop(source)

    def _drop(self, source: UpstreamPartition) -> None:
        for key in ((source, False), (source, True)):
            if (lane := self._lanes.pop(key, None)) is None:
                continue
            if lane.working is not None:
                lane.working.cancel()
            lane.events.clear()
            self._weigh(key, lane, -lane.size)

    def _weigh(self, key: tuple[UpstreamPartition, bool], lane: _Lane, size: int) -> None:
        """More waits, or less."""
        lane.size += size
        self._waiting += size
        self._memory.used += size
        source, is_reread = key
        if is_reread:
            pass  # the pool asks for one span after the other
        elif lane.size > MOST_WAITING and source not in self._paused_here:
            self._paused_here.add(source)
            self._engine.pause(frozenset((source,)))
        elif lane.size * 2 <= MOST_WAITING and source in self._paused_here:
            self._paused_here.remove(source)
            if source not in self._paused_by_pool:
                self._engine.resume(frozenset((source,)))
        is_held_up = self._waiting * 2 > MOST_OF_ENGINE if self._is_held_up else self._waiting > MOST_OF_ENGINE
        if is_held_up is not self._is_held_up:
            self._is_held_up = is_held_up
            self._engine.set_consuming(self._is_wanted and not is_held_up)

    async def _work(self, key: tuple[UpstreamPartition, bool], lane: _Lane) -> None:
        while lane.events:
            event = lane.events[0]
            for seen in await self._seen(event):
                self._tell(seen)
                if not lane.events:
                    return  # what was told has ended it
            lane.events.popleft()
            self._weigh(key, lane, -_size(event))
        del self._lanes[key]

    def _tell(self, event: EngineEvent) -> None:
        try:
            self._deliver(event)
        except Exception as problem:  # noqa: BLE001 - a bug in what was told; reading goes on
            context = {"message": "an engine's event was not taken", "exception": problem}
            asyncio.get_running_loop().call_exception_handler(context)

    # Interceptors

    async def _seen(self, event: OfPartition) -> list[EngineEvent]:
        """As the pool is to have it."""
        if isinstance(event, EndReached | Truncated) or not event.batches:
            return [event]
        chosen = self._intake.chosen(event.partition)
        if chosen is None:
            return [event]
        judged = await self._judged(chosen, event)
        if judged.records is None:
            return [event]
        first, last = event.batches[0].first, event.batches[-1].last
        kept = cut_batches(memoryview(bytearray(judged.records)), first).batches
        if isinstance(event, Reread):
            return [replace(event, batches=kept)]
        found: list[EngineEvent] = [replace(event, batches=kept)] if kept else []
        if not kept or kept[-1].last < last:
            found.append(EndReached(event.partition, last + 1, event.gap))
        return found

    async def _judged(self, chosen: Chosen, event: Received | Reread) -> Judged:
        """Tried until it is known: nothing goes past its interceptors."""
        intake = self._intake
        topic, partition = intake.place(event.partition)
        where = Where(intake.judges.name, topic, partition, On.FETCH, group=self._group)
        work = Work(chosen, Task(chosen.steps, _records(event.batches), where))
        rest = self._rest
        while True:
            async with intake.turns:
                (result,) = await intake.judges.judged([work])
            if isinstance(result, Judged) and not result.is_failed:
                return result
            await asyncio.sleep(rest)
            rest = min(2 * rest, MOST_REST)


def _records(batches: tuple[Batch, ...]) -> bytes | memoryview:
    return memoryview(batches[0].data) if len(batches) == 1 else b"".join(batch.data for batch in batches)


def _size(event: OfPartition) -> int:
    return sum(len(each.data) for each in event.batches) if isinstance(event, Received | Reread) else 0


def _below(event: OfPartition, offset: int) -> OfPartition | None:
    """What of it lies below an offset, or begins there; a batch that reaches beyond it is cut by the pool."""
    match event:
        case Received(batches=batches):
            kept = tuple(each for each in batches if each.first < offset)
            return replace(event, batches=kept) if kept else None
        case EndReached():
            return replace(event, offset=min(event.offset, offset))
        case _:
            return event
