"""Carries out one move: turns the effects of its state machine into tasks, and reports their outcomes to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, assert_never
from uuid import UUID

from mesh.routing.moves.checks import configs_of_target
from mesh.routing.moves.copying import NotCopied
from mesh.routing.moves.machine import (
    CarryOffsets,
    CopyRest,
    Discard,
    Effect,
    Effects,
    Hold,
    MoveMachine,
    Persist,
    Release,
    ReportFailed,
    ReportPostponed,
    StartCopy,
    StopCopy,
    SwitchClients,
)
from mesh.routing.moves.move import Move, document_of
from mesh.runtime.entity_router.groups.coordinators import GroupCoordinators
from mesh.runtime.entity_router.moves.copier import Copier
from mesh.runtime.entity_router.moves.gate import WriteGate
from mesh.runtime.entity_router.moves.group_offsets import GroupCarrier
from mesh.runtime.entity_router.moves.side import SideMissing, SideRefused, SideUnavailable, TopicSide
from mesh.tasks import OwnedTask, TaskName, begin, guarded, is_order
from mesh.telemetry.logs import get_logger
from mesh.upstream.store.documents import DocumentKind, StoreError
from mesh.upstream.store.store import Store

log = get_logger(__name__)

KIND: Final = DocumentKind("move", 1)
CHECK_INTERVAL: Final = 0.2
"""Seconds between two checks of the copy's progress."""
SETTLED: Final = 1.0
"""Seconds without a new record after which no request in flight is expected to arrive."""
BACKOFF: Final = 0.5
"""Seconds until the store, or a cluster, is tried again."""
_SMOOTHING: Final = 0.2


@dataclass(frozen=True, slots=True)
class MoveServices:
    """The services that all moves of a virtual cluster share.

    side: returns one side of a move, from the route to its cluster and the name of the topic; None if there is no such
    route. producers: returns the function that maps producer ids of the first side to those of the second; raises
    SideUnavailable while it is not known. move_changed: called with a topic and its move, when clients have to be led
    to another cluster; the move is None if it has ended. learnt: called with the id of the topic at a side. hold:
    seconds that clients may be held. timeout: returns the seconds that a cluster has for a response.
    """

    virtual_cluster: str
    store: Store
    gate: WriteGate
    side: Callable[[str, str], TopicSide | None]
    producers: Callable[[TopicSide, TopicSide], Callable[[int], int]]
    move_changed: Callable[[str, Move | None], None]
    learnt: Callable[[TopicSide, UUID], None]
    hold: float
    timeout: Callable[[], float]


class Mover:
    """Carries out one move of a topic."""

    def __init__(self, services: MoveServices, move: Move) -> None:
        self.machine: Final = MoveMachine(move)
        self._services: Final = services
        self._tasks: set[asyncio.Task[None]] = set()
        self._copying: asyncio.Task[None] | None = None
        self._cut: asyncio.Task[None] | None = None
        self._too_long: asyncio.TimerHandle | None = None
        self._sides: tuple[TopicSide, TopicSide] | None = None
        self.copier: Copier | None = None
        self._held_at = 0.0
        self.held_for = 0.0
        """Seconds for which clients were held at the last cut."""
        self.per_second = 0.0
        self.problem = ""
        """The reason why the move makes no progress now; empty if it does."""

    @property
    def move(self) -> Move:
        return self.machine.move

    @property
    def left(self) -> int | None:
        """The number of records that are not copied yet; None if that is not known, or no copy is going on."""
        return self.copier.left if self.copier is not None and self.move.is_copying else None

    def begin(self) -> None:
        self._carry_out(self.machine.begin())

    def cancel(self) -> None:
        """Ends the move. The topic stays where it is. Raises WrongPhase."""
        self._carry_out(self.machine.cancel())

    def close(self) -> None:
        for task in (*self._tasks, self._copying, self._cut):
            if task is not None:
                task.cancel()
        if self._too_long is not None:
            self._too_long.cancel()
        self._close_sides()

    # Effects of the machine

    def _carry_out(self, effects: Effects) -> None:
        for each in effects:
            self._do(each)

    def _do(self, effect: Effect) -> None:
        match effect:
            case StartCopy():
                if self._copying is None or self._copying.done():
                    self._copying = self._begin(self._copy())
            case StopCopy():
                self._stop_copy()
            case Hold():
                self._hold()
            case Release():
                self._release()
            case CopyRest():
                self._cut = self._begin(self._finish())
            case CarryOffsets():
                self._cut = self._begin(self._carry())
            case Persist(move=move):
                self._begin(self._persist(move))
            case SwitchClients(move=move):
                self._lead(move)
            case Discard(move=move):
                self._begin(self._discard(move))
            case ReportPostponed() | ReportFailed():
                self._log_problem(effect)
            case _:
                assert_never(effect)

    def _log_problem(self, problem: ReportPostponed | ReportFailed) -> None:
        self.problem = problem.reason
        if isinstance(problem, ReportPostponed):
            log.warning("cut over put off", **self._fields, reason=problem.reason)
        else:
            log.error("move given up", **self._fields, reason=problem.reason)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        owned = OwnedTask(TaskName.MOVE, self._services.virtual_cluster)
        task = begin(owned, partial(self._guarded, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # needed if the task is cancelled before its first step
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SideUnavailable as problem:
            self._carry_out(self.machine.postpone(str(problem), self._now()))
        except (NotCopied, SideMissing, SideRefused) as problem:
            self._carry_out(self.machine.failed(str(problem)))
        except BaseException as problem:
            if is_order(problem):
                raise
            log.exception("move failed: bug in kafka-mesh", **self._fields)
            self._carry_out(self.machine.failed(f"bug in kafka-mesh: {problem!r}"))

    # The copy

    async def _copy(self) -> None:
        move, services = self.move, self._services
        source, target = self._both()
        if not move.has_moved:
            await self._create(source, target)
        copier = self.copier = Copier(source, target, move.width, lambda: services.producers(source, target))
        copying = asyncio.get_running_loop().create_task(copier.run(), name=f"copy of {move.topic}")
        try:
            await self._rehearse()
            await self._watch(copier, copying)
        finally:
            copying.cancel()
        await _raised(copying)

    async def _create(self, source: TopicSide, target: TopicSide) -> None:
        """Creates the target, if its cluster does not know it, and waits until it does. Raises SideRefused."""
        is_logged = False
        while True:
            try:
                if await target.exists():
                    break
                await target.create(self.move.width, configs_of_target(await source.configs()), self.move.replicas)
            except SideUnavailable as problem:
                self.problem = str(problem)
                if not is_logged:
                    log.warning("target of a move not created yet", **self._fields, reason=self.problem)
                    is_logged = True
            await asyncio.sleep(BACKOFF)
        self.problem = ""

    async def _watch(self, copier: Copier, copying: asyncio.Task[None]) -> None:
        copied, at = copier.copied, self._now()
        while not copying.done():
            await asyncio.wait([copying], timeout=CHECK_INTERVAL)
            now = self._now()
            rate = (copier.copied - copied) / max(now - at, CHECK_INTERVAL)
            self.per_second += _SMOOTHING * (rate - self.per_second)
            copied, at = copier.copied, now
            if copier.left is not None:
                self._carry_out(self.machine.advanced(copier.left, self.per_second, now))

    async def _rehearse(self) -> None:
        """Commits offsets at the target before the cut. The first time takes longest."""
        try:
            await self._carrier().carry(self.move.width)
        except (SideUnavailable, SideMissing) as problem:
            self.problem = str(problem)

    def _stop_copy(self) -> None:
        copying, self._copying = self._copying, None
        if copying is not None and copying is not asyncio.current_task():
            copying.cancel()

    # The cut

    def _hold(self) -> None:
        self._held_at = self._now()
        source = self._both()[0]
        self._services.gate.hold(self.move.topic, (self.move.id,))
        held_too_long = guarded(OwnedTask(TaskName.MOVE, self._services.virtual_cluster), self._held_too_long)
        self._too_long = asyncio.get_running_loop().call_later(self._services.hold, held_too_long)
        self._cut = self._begin(self._drain(source))

    def _held_too_long(self) -> None:
        self._carry_out(self.machine.held_too_long(self._now()))

    def _release(self) -> None:
        if self._too_long is not None:
            self._too_long.cancel()
            self._too_long = None
        cut, self._cut = self._cut, None
        if cut is not None and cut is not asyncio.current_task():
            cut.cancel()
        self._services.gate.release(self.move.topic)
        self.held_for = self._now() - self._held_at

    async def _drain(self, source: TopicSide) -> None:
        if not await self._services.gate.drained():
            await _settled(source)
        self._carry_out(self.machine.drained())

    async def _finish(self) -> None:
        source = self._both()[0]
        assert self.copier is not None, "it is copied"
        source.forget()
        ends = await source.ends()
        while True:
            if await source.high_watermarks() == ends:
                break
            await asyncio.sleep(CHECK_INTERVAL)  # until the followers have all records
        await self.copier.wait_until_copied(ends)
        await self.copier.check(ends)
        self._carry_out(self.machine.finished(ends))

    async def _carry(self) -> None:
        carried = await self._carrier().carry(self.move.width)
        self._services.learnt(self._both()[1], (await self._both()[1].layout()).id)
        self._carry_out(self.machine.offsets_copied(carried))

    async def _persist(self, move: Move | None) -> None:
        """Stores the move. Tries again until the store has it, since nothing else may happen before that."""
        document = None if move is None else document_of(move)
        while True:
            try:
                await self._services.store.put(KIND, self._services.virtual_cluster, self.move.topic, document)
            except StoreError as problem:
                self.problem = str(problem)
                log.error("move not stored yet", **self._fields, reason=str(problem))
                await asyncio.sleep(BACKOFF)
            else:
                break
        self.problem = ""
        self._carry_out(self.machine.persisted())

    def _lead(self, move: Move) -> None:
        seconds = round(self._now() - self._held_at, 3)
        self._services.move_changed(move.topic, move)
        self._close_sides()
        log.info("topic moved", **self._fields, route=move.source.path, seconds=seconds)

    async def _discard(self, move: Move) -> None:
        try:
            await self._both()[1].delete()
        except (SideUnavailable, SideRefused, SideMissing) as problem:
            log.warning("copy of a topic not deleted", **self._fields, reason=str(problem))
        self._close_sides()
        self._services.move_changed(move.topic, None)

    # Internals

    def _both(self) -> tuple[TopicSide, TopicSide]:
        """The source and the target. Raises SideMissing if a route does not exist."""
        if self._sides is None:
            sides = [
                self._services.side(location.path, location.topic) for location in (self.move.source, self.move.target)
            ]
            if sides[0] is None or sides[1] is None:
                raise SideMissing("a route of the move no longer exists")
            self._sides = sides[0], sides[1]
        return self._sides

    def _carrier(self) -> GroupCarrier:
        coordinators = GroupCoordinators(self._services.timeout)
        return GroupCarrier(*self._both(), coordinators, self.move.unaccepted_offsets)

    def _close_sides(self) -> None:
        sides, self._sides = self._sides, None
        for side in sides or ():
            side.close()

    @property
    def _fields(self) -> dict[str, str]:
        return {"virtual_cluster": self._services.virtual_cluster, "topic": self.move.topic}

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


async def _settled(source: TopicSide) -> None:
    """Returns when the source has not had a new record for a while."""
    ends = await source.ends()
    while True:
        await asyncio.sleep(SETTLED)
        before, ends = ends, await source.ends()
        if before == ends:
            return


async def _raised(task: asyncio.Task[None]) -> None:
    """Raises the failure of a task, but not its cancellation."""
    with suppress(asyncio.CancelledError):
        await asyncio.wait([task])
    if not task.cancelled() and (problem := task.exception()) is not None:
        raise _first(problem)


def _first(problem: BaseException) -> BaseException:
    return _first(problem.exceptions[0]) if isinstance(problem, BaseExceptionGroup) else problem


def now_ms() -> int:
    return round(time.time() * 1000)
