"""Tasks of threads. A failure is reported as that of a task on the event loop, and the thread goes on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

from mesh.tasks import OwnedTask, reports_of


class ThreadTask:
    """The task of a thread that goes on after a failure. Its methods may be called in any thread. loop: the event loop
    on which failures are reported."""

    def __init__(self, task: OwnedTask, loop: asyncio.AbstractEventLoop) -> None:
        self.task: Final = task
        self._loop: Final = loop
        self._has_failed = self._has_ended = False

    def failed(self, problem: BaseException, rest: float) -> None:
        """Reports a failure. rest: seconds until the next attempt."""
        if self._has_ended:
            return
        self._has_failed = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(reports_of(self._loop).failed, self.task, problem, rest)

    def works(self) -> None:
        """Notes that an attempt succeeded."""
        if self._has_failed:
            self._has_failed = False
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(reports_of(self._loop).works, self.task)

    def ended(self) -> None:
        """Notes that the thread has no further work. Nothing is reported any more."""
        self._has_ended = True
        if self._has_failed:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(reports_of(self._loop).forget, self.task)


def failed_in_thread(problem: BaseException) -> None:
    """Reports the failure of a thread that continues, as `reporting` does for threads that end."""
    threading.excepthook(threading.ExceptHookArgs((type(problem), problem, problem.__traceback__, None)))
