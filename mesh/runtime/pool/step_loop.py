"""Executes all effects of one step before the next step starts. Then connections handle their next requests, and the
timer is set.

Connections take turns: each handles one request in a turn of the event loop. Otherwise a client that sends hundreds of
requests at once would delay all others by all of them.

An exception in an effect is reported, and the other effects are still executed. The connection whose bytes caused the
step never gets it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mesh.pool.common.effects import Effect
from mesh.pool.core import PoolCore
from mesh.tasks import SHORTEST_REST, OwnedTask, TaskName, report


class QueuedConnection(Protocol):
    """A connection whose requests wait until the step before them has ended."""

    def handle_next(self) -> None:
        """Handles the next request."""


class StepLoop:
    """Executes effects, and lets connections handle requests. do: executes one effect, which may cause further
    steps. failed: called with the exception of an effect."""

    def __init__(
        self, core: PoolCore, do: Callable[[Effect], None], failed: Callable[[Effect, BaseException], None]
    ) -> None:
        self._core = core
        self._do = do
        self._failed = failed
        self._task: Final = OwnedTask(TaskName.STEP, core.name)
        self._loop = asyncio.get_running_loop()
        self.now: Final[Callable[[], float]] = self._loop.time
        self._effects: deque[Effect] = deque()
        self._ready: deque[QueuedConnection] = deque()
        self._next_turn: dict[QueuedConnection, None] = {}
        """Connections with further requests, in the order of their turns."""
        self._carrying_out = False
        self._awaited: list[tuple[Callable[[], bool], asyncio.Event]] = []
        """Conditions that callers wait for, each with the event that is set when it holds."""
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._takes_requests = True

    def schedule(self, connection: QueuedConnection) -> None:
        """Lets a connection handle its next request: now, or in the next turn of the event loop if this is called while
        effects are executed or another request is handled."""
        if not self._takes_requests:
            return
        if self._carrying_out:
            if not self._next_turn:
                self._loop.call_soon(self._begin_turn)
            self._next_turn[connection] = None
        else:
            self._ready.append(connection)
            self.carry_out(())

    def carry_out(self, effects: Sequence[Effect]) -> None:
        self._effects.extend(effects)
        if self._carrying_out:
            return
        self._carrying_out = True
        try:
            while self._effects or self._ready:
                if self._effects:
                    self._execute(self._effects.popleft())
                else:
                    self._ready.popleft().handle_next()
            for each in [each for each in self._awaited if each[0]()]:
                self._awaited.remove(each)
                each[1].set()
            self._arm()
        except BaseException as problem:  # noqa: BLE001 - the client whose bytes caused the step may have no part in it
            report(self._task, problem)
        finally:
            self._carrying_out = False
            if self._effects or self._ready:
                self._loop.call_soon(self.carry_out, ())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds after a step."""
        if not condition():
            event = asyncio.Event()
            self._awaited.append((condition, event))
            await event.wait()

    def stop_requests(self) -> None:
        """Handles no further requests."""
        self._takes_requests = False

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _execute(self, effect: Effect) -> None:
        try:
            self._do(effect)
        except BaseException as problem:  # noqa: BLE001 - another client's bytes may have caused the step
            self._failed(effect, problem)

    def _begin_turn(self) -> None:
        if self._takes_requests:
            self._ready.extend(self._next_turn)
        self._next_turn.clear()
        self.carry_out(())

    def _arm(self) -> None:
        deadline = self._core.next_deadline()
        if deadline is None or (self._timer is not None and self._due <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._tick)
        self._due = deadline

    def _tick(self) -> None:
        self._timer = None
        try:
            # The loop counts milliseconds, and may wake a fraction of one early. A timer for the rest would spin.
            effects = self._core.tick(max(self.now(), self._due))
        except BaseException as problem:  # noqa: BLE001 - the timer must go on
            report(self._task, problem)
            self._timer = self._loop.call_later(SHORTEST_REST, self._tick)
        else:
            self.carry_out(effects)
