"""Requests to stop."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Self


class StopRequest:
    """A request to stop by SIGINT, SIGTERM or SIGHUP, within a `with` block. A second signal raises KeyboardInterrupt.

    It uses a pipe, because a handler may run while its thread holds the lock of a threading.Event.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._received = False

    def __enter__(self) -> Self:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._receive) for number in numbers}
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> bool:
        """Waits up to `seconds`. Returns whether a stop was requested."""
        return bool(select.select([self._reader], [], [], max(0.0, seconds))[0])

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        if self._received:
            raise KeyboardInterrupt
        self._received = True
        os.write(self._writer, b"!")
