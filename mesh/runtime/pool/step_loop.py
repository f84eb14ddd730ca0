"""Executes all effects of one step before the next step starts, whoever caused it. Then connections take up their next
requests, and the timer is set.

An exception that an effect raises goes to the event loop, which logs it; what else was to be done is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mesh.pool.common.effects import Effect
from mesh.pool.core import PoolCore


class QueuedConnection(Protocol):
    """A connection whose requests wait until the step before them has ended."""

    def take_up(self) -> None:
        """Take up the next request."""


class StepLoop:
    """Executes effects, and lets connections take up requests. do: carries out one effect, which may cause further
    steps."""

    def __init__(self, core: PoolCore, do: Callable[[Effect], None]) -> None:
        self._core = core
        self._do = do
        self._loop = asyncio.get_running_loop()
        self.now: Final[Callable[[], float]] = self._loop.time
        self._effects: deque[Effect] = deque()
        self._ready: deque[QueuedConnection] = deque()
        self._carrying_out = False
        self._awaited: list[tuple[Callable[[], bool], asyncio.Event]] = []
        """What somebody waits for."""
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._takes_requests = True

    def take_up(self, connection: QueuedConnection) -> None:
        """Let it take up its next request, once everything that was decided before is done."""
        if self._takes_requests:
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
                    self._do(self._effects.popleft())
                else:
                    self._ready.popleft().take_up()
        finally:
            self._carrying_out = False
            for each in [each for each in self._awaited if each[0]()]:
                self._awaited.remove(each)
                each[1].set()
            if self._effects or self._ready:
                self._loop.call_soon(self.carry_out, ())
            self._arm()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a step has made it so."""
        if not condition():
            event = asyncio.Event()
            self._awaited.append((condition, event))
            await event.wait()

    def stop_requests(self) -> None:
        """Take up no request any more."""
        self._takes_requests = False

    def close(self) -> None:
        """No more of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

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
        # The loop counts milliseconds and may be early by a part of one; asking again would spin until that has passed.
        self.carry_out(self._core.tick(max(self.now(), self._due)))
