"""Child processes that never outlive the test run, free ports, and deadlines instead of sleeps."""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.error import URLError

from confluent_kafka import KafkaError, KafkaException

from tests.integration.starter import ForkedProcess, Starter

Value = TypeVar("Value")

START = 120.0
"""Seconds in which a process must have started. No test measures this; several test processes that start brokers at
once have taken more than 60."""

ENVIRONMENT = dict(os.environ)
"""The environment of the whole run. That of the first test to start a mesh may be that test's own."""
STARTED: Counter[str] = Counter()
"""Processes that this process has started, by kind: brokers, meshes, other programs in Java (tools)."""
_LATE = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_PROGRAM = Path(sys.executable).with_name("kafka-mesh")
_OF_PYTEST = "PYTEST_VERSION"
"""Set by pytest. Benchmarks start each process, also that of another version."""
_HIDDEN = Path(__file__).with_name("hidden")
"""Packages that say that they are not there."""
_PORTS: set[int] = set()
"""The ports given to this process."""
_PORTS_FILE: int | None = None
_PORTS_LOCK = threading.Lock()


def _die_with_parent() -> None:
    # Sent when the *thread* that forked ends: start children from the main thread only.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _without_hypothesis(program: str | Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a mesh starts as it does where it is installed without the tests' packages: kio loads
    hypothesis if it finds it, which is a fifth of the start."""
    if Path(program).name != "kafka-mesh":
        return {}
    path = environment.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(_HIDDEN), *([path] if path else [])])}


class ChildProcess:
    """A program in its own process group. It is killed with the test process; its output goes to `log`."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        log: Path,
        stdout: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """stdout: a separate file for the standard output, instead of `log`. Both files are appended to."""
        self.log = log
        words = [str(argument) for argument in arguments]
        count_start(words)
        whole = {**os.environ, **_without_hypothesis(words[0], os.environ), **(environment or {})}
        with log.open("ab") as errors, (stdout or log).open("ab") as output:
            self._process = _started(words, whole, output, errors)
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs; minus the signal's number if a signal ended it."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the whole group, if it still exists."""
        if self._process.poll() is None:
            os.killpg(self.pid, number)

    def wait(self, timeout: float) -> int:
        """The exit code; raises AssertionError with the end of the log if it still runs after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s; its log ends:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """SIGKILL (even when frozen); then waits."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def count_start(words: Sequence[str]) -> None:
    """Counts the start of a program in STARTED."""
    match Path(words[0]).name, words:
        case "kafka-mesh", [_, "run", *_]:
            STARTED["meshes"] += 1
        case "java", [*_] if "kafka.Kafka" in words:
            STARTED["brokers"] += 1
        case "java", _:
            STARTED["tools"] += 1
        case _:
            pass


def completed(
    words: Sequence[str | Path], timeout: float = 120.0, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of kafka-mesh that has ended: exit code, standard output and errors. Raises AssertionError after
    `timeout` seconds. environment: further variables."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = ChildProcess(words, log=errors, stdout=output, environment=environment)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(list(words), code, output.read_text(), errors.read_text())


def _started(
    words: Sequence[str], environment: Mapping[str, str], output: BinaryIO, errors: BinaryIO
) -> subprocess.Popen[bytes] | ForkedProcess:
    if _OF_PYTEST in os.environ and Path(words[0]) == _PROGRAM:
        starter = _starter()
        if starter.serves(environment):
            return starter.start(words[1:], environment, output.fileno(), errors.fileno())
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env=environment,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )


@cache
def _starter() -> Starter:
    return Starter({**ENVIRONMENT, **_without_hypothesis("kafka-mesh", ENVIRONMENT)})


def free_port() -> int:
    """A free loopback port below the range from which the kernel takes ports for outgoing connections.

    So it is still free when a killed server starts on it again. It belongs to this process until the process ends: a
    broker takes seconds until it listens, and meanwhile another test process would find the same port free.
    """
    with _PORTS_LOCK:
        while True:
            port = random.SystemRandom().randrange(20_000, 32_000)
            if port not in _PORTS and _reserve(port) and _is_free(port):
                _PORTS.add(port)
                return port


def free_ports(count: int) -> range:
    """This many neighbouring ports."""
    with _PORTS_LOCK:
        while True:
            first = random.SystemRandom().randrange(20_000, 32_000 - count)
            ports = range(first, first + count)
            if all(port not in _PORTS and _reserve(port) and _is_free(port) for port in ports):
                _PORTS.update(ports)
                return ports


def _reserve(port: int) -> bool:
    """Reserves a free port: a lock on the byte of that number in a file of all test processes, which ends with the
    process."""
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
    """The first value of `probe` that is true; after `timeout` it raises AssertionError with `what` and the last
    value. A probe that gets no answer in its time is tried again."""
    deadline = time.monotonic() + timeout
    while True:
        value: Value | Exception | None
        try:
            value = probe()
        except (OSError, KafkaException) as failure:
            if not _is_late(failure):
                raise
            value = failure
        else:
            if value:
                return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what} (last seen: {value!r})")
        time.sleep(interval)


def _is_late(failure: Exception) -> bool:
    """True for an answer that did not come in time: on a busy machine it may come the next time."""
    match failure:
        case URLError(reason=TimeoutError()) | TimeoutError():
            return True
        case KafkaException(args=(KafkaError() as error, *_)):
            return error.code() in _LATE
        case _:
            return False
