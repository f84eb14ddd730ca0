"""Child processes that never outlive the test run, free ports, and deadlines instead of sleeps."""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

START = 120.0
"""Seconds within which a process must have started. No test is about that, and where several test processes start
brokers at once it was seen to take more than 60."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_PORTS: set[int] = set()
"""Those this process has been given."""
_PORTS_FILE: int | None = None
_PORTS_LOCK = threading.Lock()


def _die_with_parent() -> None:
    # Sent when the *thread* that forked ends: children are started from the main thread only.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ChildProcess:
    """A program in a process group of its own, killed with the test process; output goes to `log`."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        log: Path,
        stdout: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """stdout: a file of its own for the standard output, instead of `log`. Both files are appended to."""
        self.log = log
        with log.open("ab") as errors, (stdout or log).open("ab") as output:
            self._process = subprocess.Popen(
                [str(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, if it is still there."""
        if self._process.poll() is None:
            os.killpg(self.pid, number)

    def wait(self, timeout: float) -> int:
        """The exit code; raises AssertionError with the end of the log when it still runs after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s; its log ends:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """SIGKILL (also when frozen) and wait."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def free_port() -> int:
    """A loopback port nobody listens on, below the range from which the kernel takes ports for outgoing connections.

    So it is still free when a killed server is started again on it. And it is this process's until that ends: a broker
    takes seconds until it listens, in which another test process would find the same port free.
    """
    with _PORTS_LOCK:
        while True:
            port = random.SystemRandom().randrange(20_000, 32_000)
            if port not in _PORTS and _reserve(port) and _is_free(port):
                _PORTS.add(port)
                return port


def free_ports(count: int) -> range:
    """So many of them, one behind the other."""
    with _PORTS_LOCK:
        while True:
            first = random.SystemRandom().randrange(20_000, 32_000 - count)
            ports = range(first, first + count)
            if all(port not in _PORTS and _reserve(port) and _is_free(port) for port in ports):
                _PORTS.update(ports)
                return ports


def _reserve(port: int) -> bool:
    """Makes it ours, if it is nobody's: a lock on the byte of that number of a file that all test processes have, which
    ends with the process."""
    global _PORTS_FILE
    if _PORTS_FILE is None:
        path = Path(tempfile.gettempdir(), f"kafka-mesh-ports-{os.getuid()}")
        _PORTS_FILE = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(_PORTS_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def eventually(what: str, probe: Callable[[], Value | None], *, timeout: float = 60.0, interval: float = 0.05) -> Value:
    """The first value of `probe` that is true; AssertionError naming `what` and the last value after `timeout`."""
    deadline = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what} (last seen: {value!r})")
        time.sleep(interval)
