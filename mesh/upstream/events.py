"""The channel of events from an engine's threads to the event loop. It keeps their order, and wakes the loop as rarely
as possible."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Event = TypeVar("Event")


class EventChannel(Generic[Event]):
    """A channel into which any thread puts events. `deliver` is called with each of them on the event loop's thread.
    failed: called with an exception of `deliver`, whose event may be lost."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[Event], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._failed = failed
        self._events: deque[Event] = deque()
        self._woken = False
        self._closed = False

    def __len__(self) -> int:
        """Returns the number of events that were put in and not yet delivered."""
        return len(self._events)

    def put(self, event: Event) -> None:
        if self._closed:
            return
        self._events.append(event)
        if not self._woken:
            # Set before the wake-up, cleared before the events are taken. So this wake-up delivers an event, or the
            # event causes the next one.
            self._wake()

    def close(self) -> None:
        """Delivers nothing more. Called on the event loop's thread."""
        self._closed = True
        self._events.clear()

    def _wake(self) -> None:
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # the loop is closed: nobody is left to notify
            self.close()

    def _drain(self) -> None:
        self._woken = False
        for _ in range(len(self._events)):
            if not self._events:  # an event that was delivered closed the channel
                return
            try:
                self._deliver(self._events.popleft())
            except BaseException as problem:  # noqa: BLE001 - the later events must still be delivered
                self._failed(problem)
