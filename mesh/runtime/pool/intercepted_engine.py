"""An engine whose records interceptors see before the pool does.

Records of an intercepted partition wait in a queue until the interceptors have seen them, in order. Everything else
passes at once. A dropped record becomes an offset without a record, which counts as acknowledged. If interceptors fail,
and may not be skipped, the queue waits and tries again; other partitions go on.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from mesh.interceptors.chain import ChainResult
from mesh.interceptors.frames import Task
from mesh.interceptors.selection import Chosen, Selection
from mesh.interceptors.spi import On, Where
from mesh.memory import MemoryBudget
from mesh.pool.common.ids import GroupId
from mesh.records.batch import RecordBatch
from mesh.records.fetched import split_into_runs
from mesh.records.spans import CommitPosition, Span, TopicName, UpstreamPartition
from mesh.runtime.interception.interceptor_runner import InterceptorRunner, InterceptorWork
from mesh.security.principals import ANONYMOUS
from mesh.tasks import OwnedTask, TaskName, begin, is_order
from mesh.upstream.engine import (
    Assigned,
    CommitToken,
    EndReached,
    Engine,
    EngineEvent,
    EngineFailed,
    EventBatch,
    Lost,
    PositionReset,
    Received,
    Reread,
    RereadToken,
    Truncated,
)

MOST_WAITING: Final = 4 << 20
"""The most waiting bytes of one partition. Above it the engine pauses the partition."""
MOST_OF_ENGINE: Final = 64 << 20
"""The most waiting bytes of all partitions. Above it the engine pauses all of them."""
FIRST_BACKOFF: Final = 1.0
MOST_BACKOFF: Final = 30.0
"""The most seconds until a failed interception is tried again; the delay doubles."""

Deliver: TypeAlias = Callable[[EngineEvent], None]
NumberOf: TypeAlias = Callable[[UpstreamPartition], tuple[TopicName, int] | None]
"""Returns the topic and partition under which clients see an upstream partition."""
PartitionEvent: TypeAlias = Received | EndReached | Reread | Truncated


@dataclass(frozen=True, slots=True)
class IntakeInterceptors:
    """The interceptors of records that come into the pools of a virtual cluster.

    turns: limits how many interceptions run at once. The time for which one waits for its turn does not count as its
    time.
    """

    runner: InterceptorRunner
    selection: Selection
    number: NumberOf
    turns: asyncio.Semaphore

    def client_partition(self, source: UpstreamPartition) -> tuple[str, int]:
        return self.number(source) or (source.topic, source.partition)

    def sees(self, topic: str) -> bool:
        return self.selection.chosen(topic, On.FETCH, ANONYMOUS) is not None

    def chosen(self, source: UpstreamPartition) -> Chosen | None:
        return self.selection.chosen(self.client_partition(source)[0], On.FETCH, ANONYMOUS)


class _PartitionQueue:
    """The queue of one partition: records that interceptors have not seen yet. Rereads of a partition have a queue of
    their own."""

    def __init__(self) -> None:
        self.events: deque[PartitionEvent] = deque()
        self.size = 0
        self.working: asyncio.Task[None] | None = None


class InterceptedEngine:
    """An engine whose records pass through interceptors. Implements `mesh.upstream.engine.Engine`.

    make: makes the inner engine, which reports its events to the given function. backoff: seconds until a failed
    interception is tried again for the first time.
    """

    def __init__(
        self,
        make: Callable[[Deliver], Engine],
        deliver: Deliver,
        intake: IntakeInterceptors,
        group: GroupId,
        memory: MemoryBudget,
        backoff: float = FIRST_BACKOFF,
    ) -> None:
        self._deliver: Final = deliver
        self._intake: Final = intake
        self._group: Final = group
        self._memory: Final = memory
        self._backoff: Final = backoff
        self._queues: dict[tuple[UpstreamPartition, bool], _PartitionQueue] = {}
        self._waiting = 0
        """Bytes in all queues."""
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

    def look_at_ends(self, number: int) -> None:
        self._engine.look_at_ends(number)

    def change_login(self, username: str, password: str) -> None:
        self._engine.change_login(username, password)

    async def close(
        self, positions: Mapping[UpstreamPartition, CommitPosition], *, leaves: bool = True
    ) -> Mapping[UpstreamPartition, int]:
        self._forget({source for source, _ in self._queues})
        return await self._engine.close(positions, leaves=leaves)

    # Events of the engine

    def _happened(self, event: EngineEvent) -> None:
        match event:
            case Received() | EndReached() | Reread():
                if not self._queue_if_needed(event):
                    self._deliver(event)
            case EventBatch(events):
                passed = tuple(each for each in events if not self._queue_if_needed(each))
                if passed:
                    self._deliver(event if len(passed) == len(events) else EventBatch(passed))
            case Truncated():
                self._truncated(event)
            case Assigned(partitions):
                resumed = {each.partition for each in partitions if each.resumed}
                self._forget({source for source, _ in self._queues} - resumed)
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
                self._forget({source for source, _ in self._queues})
                self._deliver(event)
            case _:
                self._deliver(event)

    def _queue_if_needed(self, event: Received | EndReached | Reread) -> bool:
        """Puts an event into its queue if it must wait for interceptors, or for events before it. Returns True if it
        does."""
        key = event.partition, isinstance(event, Reread)
        has_records = not isinstance(event, EndReached) and len(event.batches) > 0
        if key not in self._queues and not (has_records and self._intake.chosen(event.partition) is not None):
            return False
        self._put(key, event)
        return True

    def _truncated(self, event: Truncated) -> None:
        """Drops everything above the offset where the logs diverge. The pool asks again for spans."""
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

    # Queues

    def _events(self, source: UpstreamPartition) -> tuple[PartitionEvent, ...]:
        queue = self._queues.get((source, False))
        return tuple(queue.events) if queue is not None else ()

    def _put(self, key: tuple[UpstreamPartition, bool], event: PartitionEvent) -> None:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _PartitionQueue()
        queue.events.append(event)
        self._count_bytes(key, queue, _size(event))
        if queue.working is None:
            task = OwnedTask(TaskName.INTAKE, self._intake.runner.name, key[0].cluster, self._group)
            queue.working = begin(task, partial(self._work, key, queue))

    def _forget(self, sources: Iterable[UpstreamPartition]) -> None:
        """Drops the queues of partitions that moved or are assigned again, and forgets that they were paused here."""
        gone = frozenset(sources)
        self._paused_here -= gone
        for source in gone:
            self._drop(source)

    def _drop(self, source: UpstreamPartition) -> None:
        for key in ((source, False), (source, True)):
            if (queue := self._queues.pop(key, None)) is None:
                continue
            if queue.working is not None:
                queue.working.cancel()
            queue.events.clear()
            self._count_bytes(key, queue, -queue.size)

    def _count_bytes(self, key: tuple[UpstreamPartition, bool], queue: _PartitionQueue, size: int) -> None:
        """Counts `size` more waiting bytes (fewer, if negative), and pauses or resumes the partition accordingly."""
        queue.size += size
        self._waiting += size
        self._memory.used += size
        source, is_reread = key
        if is_reread:
            pass  # no pause: the pool asks for one span after the other
        elif queue.size > MOST_WAITING and source not in self._paused_here:
            self._paused_here.add(source)
            self._engine.pause(frozenset((source,)))
        elif queue.size * 2 <= MOST_WAITING and source in self._paused_here:
            self._paused_here.remove(source)
            if source not in self._paused_by_pool:
                self._engine.resume(frozenset((source,)))
        is_held_up = self._waiting * 2 > MOST_OF_ENGINE if self._is_held_up else self._waiting > MOST_OF_ENGINE
        if is_held_up is not self._is_held_up:
            self._is_held_up = is_held_up
            self._engine.set_consuming(self._is_wanted and not is_held_up)

    async def _work(self, key: tuple[UpstreamPartition, bool], queue: _PartitionQueue) -> None:
        try:
            await self._empty(key, queue)
        except BaseException as problem:
            if is_order(problem):
                raise
            self._forget({source for source, _ in self._queues})
            self._deliver(EngineFailed(repr(problem), "".join(traceback.format_exception(problem))))

    async def _empty(self, key: tuple[UpstreamPartition, bool], queue: _PartitionQueue) -> None:
        """Reports the events of a queue, in order, as interceptors leave them."""
        while queue.events:
            event = queue.events[0]
            for seen in await self._intercepted(event):
                self._deliver(seen)
                if not queue.events:
                    return  # an event that was reported has ended the queue
            queue.events.popleft()
            self._count_bytes(key, queue, -_size(event))
        del self._queues[key]

    # Interceptors

    async def _intercepted(self, event: PartitionEvent) -> list[EngineEvent]:
        """Returns the events that the pool gets in place of an event, after interceptors have seen its records."""
        if isinstance(event, EndReached | Truncated) or not event.batches:
            return [event]
        chosen = self._intake.chosen(event.partition)
        if chosen is None:
            return [event]
        judged = await self._intercept(chosen, event)
        if judged.records is None:
            return [event]
        first, last = event.batches[0].first, event.batches[-1].last
        kept = split_into_runs(memoryview(bytearray(judged.records)), first).batches
        if isinstance(event, Reread):
            return [replace(event, batches=kept)]
        found: list[EngineEvent] = [replace(event, batches=kept)] if kept else []
        if not kept or kept[-1].last < last:
            found.append(EndReached(event.partition, last + 1, event.gap))
        return found

    async def _intercept(self, chosen: Chosen, event: Received | Reread) -> ChainResult:
        """Lets interceptors judge the records of an event. Tries again until they succeed: no record passes by its
        interceptors."""
        intake = self._intake
        topic, partition = intake.client_partition(event.partition)
        where = Where(intake.runner.name, topic, partition, On.FETCH, group=self._group)
        work = InterceptorWork(chosen, Task(chosen.steps, _records(event.batches), where))
        backoff = self._backoff
        while True:
            async with intake.turns:
                (result,) = await intake.runner.run([work])
            if isinstance(result, ChainResult) and not result.is_failed:
                return result
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, MOST_BACKOFF)


def _records(batches: tuple[RecordBatch, ...]) -> bytes | memoryview:
    return memoryview(batches[0].data) if len(batches) == 1 else b"".join(batch.data for batch in batches)


def _size(event: PartitionEvent) -> int:
    return sum(len(each.data) for each in event.batches) if isinstance(event, Received | Reread) else 0


def _below(event: PartitionEvent, offset: int) -> PartitionEvent | None:
    """The part of an event below an offset. The pool itself cuts a batch that reaches beyond the offset."""
    match event:
        case Received(batches=batches):
            kept = tuple(each for each in batches if each.first < offset)
            return replace(event, batches=kept) if kept else None
        case EndReached():
            return replace(event, offset=min(event.offset, offset))
        case _:
            return event
