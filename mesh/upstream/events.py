"""Events on their way from an engine's threads to the event loop, in order, with as few wake-ups as possible."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Event = TypeVar("Event")


class EventChannel(Generic[Event]):
    """Any thread puts events in; `deliver` is called with each of them on the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[Event], None]) -> None:
        self._loop = loop
        self._deliver = deliver
        self._events: deque[Event] = deque()
        self._woken = False
        self._closed = False

    def __len__(self) -> int:
        """Events that were put in and not delivered."""
        return len(self._events)

    def put(self, event: Event) -> None:
        if self._closed:
            return
        self._events.append(event)
        if not self._woken:
            # Set before the wake-up, cleared before the events are taken: an event is delivered by this wake-up or
            # causes the next one.
            self._wake()

    def close(self) -> None:
        """Deliver nothing more. On the event loop's thread."""
        self._closed = True
        self._events.clear()

    def _wake(self) -> None:
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            self.close()

    def _drain(self) -> None:
        self._woken = False
        for _ in range(len(self._events)):
            if not self._events:  # closed by what was delivered
                return
            event = self._events.popleft()
            try:
                self._deliver(event)
            except BaseException:
                self._wake()  # the loop reports it; the events behind it are not to be forgotten
                raise
