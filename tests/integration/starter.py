"""Starts the meshes of the tests: a process that has imported the mesh forks for each of them.

A mesh imports some 1,500 modules, which is two seconds of CPU, and `make test` starts hundreds of meshes. A forked mesh
runs the same command with arguments, environment, folder and files of its own. So do the commands that tests use, and
those of the command line's tests. Tests of the start itself start the program.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

IMPORTED = (
    "mesh.cli",
    "mesh.app.application",
    "mesh.app.worker",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
)
"""What `kafka-mesh run` imports."""

_PR_SET_PDEATHSIG = 1
_START = 120.0
"""Seconds in which a process must have been forked."""
_MOST = 1 << 18
"""Bytes of a message. It holds the environment."""


class ForkedProcess:
    """A mesh that `Starter` has forked; the part of `subprocess.Popen` that `ChildProcess` needs."""

    def __init__(self, starter: Starter, pid: int) -> None:
        self.pid = pid
        self._starter = starter

    def poll(self) -> int | None:
        """The exit code; None while it runs; minus the signal's number if a signal ended it."""
        return self._starter.exit_code(self.pid, 0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            code = self._starter.exit_code(self.pid, 0.2)
            if code is not None:
                return code
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(["kafka-mesh"], timeout or 0)


class Starter:
    """The other end of the process that forks. It ends with the process that made it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_START)
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._settings = _settings(environment)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                cwd=Path(__file__).parents[2],  # the module is found from here, wherever a test has gone
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether a mesh with that environment is as one forked: what Python, its loader and its allocator read when
        they start is the same."""
        return _settings(environment) == self._settings

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], out: int, errors: int) -> ForkedProcess:
        """Returns when the process leads a group of its own.

        out, errors: file descriptors of the standard output and of the errors.
        """
        asked = {"arguments": list(arguments), "environment": dict(environment), "folder": os.getcwd()}
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], [out, errors])
            while "pid" not in (said := self._read()):
                pass
        return ForkedProcess(self, said["pid"])

    def close(self) -> None:
        """Ends the process that forks, and with it all that it has forked."""
        self._socket.close()
        self._process.wait()

    def exit_code(self, pid: int, seconds: float) -> int | None:
        """Waits up to `seconds` for the end of any of the processes; None while that of `pid` runs."""
        with self._lock:
            while pid not in self._codes and select.select([self._socket], [], [], seconds)[0]:
                self._read()
            return self._codes.get(pid)

    def _read(self) -> dict[str, int]:
        data = self._socket.recv(_MOST)
        assert data, f"the process that starts meshes has ended with {self._process.wait()}"
        said: dict[str, int] = json.loads(data)
        if "ended" in said:
            self._codes[said["ended"]] = said["code"]
        return said


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LD_", "MALLOC_"))}


def main(descriptor: int) -> None:
    """Forks as asked until the other end is gone; in a forked process, runs the mesh."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # a forked process copies the memory of each object that its collector looks at
    assert len(os.listdir("/proc/self/task")) == 1, "a thread of an imported module would be missing after a fork"
    with socket.socket(fileno=descriptor) as connection:
        arguments = _serve(connection)
    if arguments is not None:
        sys.argv = ["kafka-mesh", *arguments]
        importlib.import_module("mesh.cli").main()


def _serve(connection: socket.socket) -> list[str] | None:
    """The arguments, in a forked process; None in the one that forks, at its end."""
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([connection.fileno(), wake], [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                os.read(wake, 4096)
            _tell_ends(connection)
        if connection.fileno() not in ready:
            continue
        data, files, _, _ = socket.recv_fds(connection, _MOST, 2)
        if not data:
            return None
        asked = json.loads(data)
        if os.fork() == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(wake)
            os.close(woken)
            _become(asked["environment"], Path(asked["folder"]), files)
            connection.send(json.dumps({"pid": os.getpid()}).encode())
            return list(asked["arguments"])
        for each in files:
            os.close(each)


def _tell_ends(connection: socket.socket) -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            pid, status = found
            with suppress(BrokenPipeError):
                connection.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _become(environment: Mapping[str, str], folder: Path, files: Sequence[int]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, each in enumerate(files, 1):
        os.dup2(each, descriptor)
        os.close(each)


if __name__ == "__main__":
    main(int(sys.argv[1]))
