"""Writes log entries in a thread, since a reader of standard error may stop reading: a log driver whose server is
away."""

from __future__ import annotations

import io
import logging
import os
import queue
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

MOST_ENTRIES: Final = 10_000
"""The most entries that wait to be written. Further ones are left out and counted."""
LAST_SECONDS: Final = 2.0
"""Seconds that the end of the process waits until everything is written."""


class LogWriter:
    """A thread that writes texts to a stream, in order. report: called in that thread with the number of texts that
    were left out, when there is room again; the text that it writes comes next."""

    def __init__(self, stream: TextIO, report: Callable[[int], None], most: int = MOST_ENTRIES) -> None:
        self.stream: Final = stream
        self._report = report
        self._waiting: queue.Queue[str | threading.Event] = queue.Queue(most)
        self._left_out = 0
        self._counting = threading.Lock()
        self._reported: list[str] = []
        """Texts of the thread itself. Its caller holds the lock of a handler, for which all others wait."""
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Takes a text, and returns at once. If too many wait, it is left out and counted."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()
        if threading.current_thread() is self._thread:
            self._reported.append(text)
            return
        try:
            self._waiting.put_nowait(text)
        except queue.Full:
            self._leave_out()

    def flush(self) -> bool:
        """Waits until all texts are written, `LAST_SECONDS` at most. Returns True if they are."""
        if self._thread is None:
            return True
        written = threading.Event()
        try:
            self._waiting.put(written, timeout=LAST_SECONDS)
        except queue.Full:
            return False
        return written.wait(LAST_SECONDS)

    def _run(self) -> None:
        while True:
            match self._waiting.get():
                case threading.Event() as written:
                    written.set()
                case text:
                    self._write(text)
                    with self._counting:
                        left_out, self._left_out = self._left_out, 0
                    if left_out:
                        self._report(left_out)
                        self._write("".join(self._reported))
                        self._reported.clear()

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the reader is gone, or the stream is closed
            descriptor = _descriptor_of(self.stream)
            if descriptor is not None:
                _write_all(descriptor, text.encode(self.stream.encoding, "backslashreplace"))
                return
            self.stream.write(text)
            self.stream.flush()

    def _leave_out(self) -> None:
        with self._counting:
            self._left_out += 1


class ThreadedHandler(logging.Handler):
    """Gives entries to a writer."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - as every handler of the standard library does
            self.handleError(record)

    def flush(self) -> None:
        """Waits until all entries are written, `LAST_SECONDS` at most."""
        self._writer.flush()


def _descriptor_of(stream: TextIO) -> int | None:
    with suppress(io.UnsupportedOperation):
        return stream.fileno()
    return None


def _write_all(descriptor: int, content: bytes) -> None:
    """Writes `content` whole. Another process may have made a shared pipe non-blocking: a full one takes nothing then,
    and Python's streams would lose the rest."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select((), (descriptor,), ())
