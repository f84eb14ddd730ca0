"""The processes of the demo: started, watched, stopped in order, and never left behind."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_TAIL = 15
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ChildFailed(Exception):
    """Raised when a process of the demo ended without being asked to, or failed."""


class Child:
    """A Python module that runs as a separate process, and writes to a log."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs, minus the signal's number when a signal ended it."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """Sends SIGTERM, if the process still runs."""
        self._process.terminate()

    def wait(self, timeout: float) -> None:
        """Waits for its end. Raises ChildFailed unless it ends within `timeout` seconds with exit code 0."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.failed(f"still ran {timeout:g} s after it was asked to stop") from None
        if code:
            raise self.failed(f"{_ended(code)} when it was asked to stop")

    def freeze(self) -> None:
        """Sends SIGSTOP, if the process still runs."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Sends SIGCONT, if the process still runs."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL, if the process still runs, and waits for its end."""
        self._process.kill()
        self._process.wait()

    def failed(self, how: str) -> ChildFailed:
        """Returns an exception that says how the process failed, with the end of its log."""
        tail = self._log.read_text(errors="replace").splitlines()[-_TAIL:]
        return ChildFailed("\n".join([f"{self.name} {how}; its log ends:", *(f"  {line}" for line in tail or ["-"])]))


class Children:
    """All processes of the demo. Those that still run at its end are killed, the last one started first."""

    def __init__(self, logs: Path) -> None:
        """logs: the folder for the logs of the processes."""
        self._logs = logs
        self._running: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        for child in reversed(self._running):
            child.kill()

    def start(self, name: str, module: str, *arguments: str | Path | float) -> Child:
        """Runs `python -m MODULE ARGUMENTS`; only from the main thread."""
        log = self._logs / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo alone, which stops its children in order
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        child = Child(name, process, log)
        self._running.append(child)
        return child

    def check(self) -> None:
        """Raises ChildFailed when a process has ended that was not asked to."""
        for child in self._running:
            if (code := child.exit_code) is not None:
                raise child.failed(_ended(code))

    def kill(self, child: Child) -> None:
        """Kills a child whose end is not a failure."""
        child.kill()
        self._running.remove(child)

    def stop(self, *children: Child, timeout: float = 45.0) -> None:
        """Stops these processes, all at the same time. Raises ChildFailed when one fails or does not end within
        `timeout` seconds."""
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.wait(timeout)
            self._running.remove(child)


def _ended(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def _end_with_parent() -> None:
    # Ends the child even if the demo is killed by SIGKILL. The kernel sends the signal when the thread that started the
    # child ends.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
