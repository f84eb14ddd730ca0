"""A worker of the supervisor: a process that is restarted when it ends, and queried over HTTP."""

from __future__ import annotations

import http.client
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, Final

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.to_thread import run_sync

from mesh.app.worker import ANSWERS_AT, LONGEST, Orders
from mesh.tasks import OwnedTask, TaskName, is_order, reports
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 10.0
"""The most seconds until a worker starts again. The delay doubles, unless the worker ran for `STEADY` seconds."""
STEADY: Final = 30.0
WRONG_USAGE: Final = 2


class WorkerUnavailable(Exception):
    """Raised when a worker does not answer."""


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A request to the admin address of a worker. path: the path with its query. deadline: seconds for the response."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 10.0


@dataclass(frozen=True, slots=True)
class WorkerResponse:
    """The response of a worker at its admin address."""

    status: int
    content_type: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class WorkerProcess:
    """A worker of the supervisor. restarts: the number of times that it was started again. refused: the exit code of
    its first process, if that could not begin with the configuration."""

    def __init__(self, number: int, instance: str, file: Path) -> None:
        """instance: the name of the whole mesh, the same for all workers."""
        self.number = number
        self._instance = instance
        self.restarts = 0
        self.refused: int | None = None
        self._file = file
        self._token = secrets.token_hex(32)
        self._port: int | None = None
        self._starting: anyio.Event | None = None
        """Set when the process that is starting answers, or has ended; None if none is starting."""
        self._process: anyio.abc.Process | None = None
        self._stopping = anyio.Event()

    @property
    def pid(self) -> int | None:
        """The id of the process; None while it does not run."""
        return self._process.pid if self._process is not None else None

    async def keep_running(self) -> None:
        """Runs the process, and restarts it when it ends, or when its start fails. Returns when the process has ended
        after `stop`, and when it cannot begin with the configuration."""
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                code = await self._run()
                reason = _reason(code)
            except OSError as problem:  # no memory or no process is left; that may pass
                code, reason = None, f"not started: {problem}"
            except BaseException as problem:
                if is_order(problem):
                    raise
                reports().failed(OwnedTask(TaskName.WORKER), problem, None)
                code, reason = None, f"bug in kafka-mesh: {problem!r}"
            if self._stopping.is_set():
                return
            if code == WRONG_USAGE and not self.restarts:
                self.refused = code  # the worker has logged why
                return
            self.restarts += 1
            log.error("worker ended", worker=self.number, reason=reason)
            delay = FIRST_DELAY if time.monotonic() - began > STEADY else min(2 * delay, LONGEST_DELAY)
            with anyio.move_on_after(delay):
                await self._stopping.wait()

    def stop(self) -> None:
        """Lets the process end in order. A second call makes it end at once."""
        self._stopping.set()
        self._signal(SIGTERM)

    def kill(self) -> None:
        self._stopping.set()
        self._signal(SIGKILL)

    async def until_started(self, seconds: float) -> None:
        """Returns when the process that is starting now answers, or has ended; at once if none is starting."""
        if self._starting is not None:
            with anyio.move_on_after(seconds):
                await self._starting.wait()

    async def ask(self, request: WorkerRequest) -> WorkerResponse:
        """Sends a request to the worker, and returns the response. Raises WorkerUnavailable."""
        if self._port is None:
            raise WorkerUnavailable(f"worker {self.number} does not run, or not yet")
        try:
            return await run_sync(self._ask, request, abandon_on_cancel=True)
        except (OSError, http.client.HTTPException) as problem:
            raise WorkerUnavailable(f"worker {self.number} does not answer: {problem}") from problem

    def _ask(self, request: WorkerRequest) -> WorkerResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=request.deadline)
        try:
            headers = {**request.headers, "Authorization": f"Bearer {self._token}"}
            connection.request(request.method, request.path, request.body or None, headers)
            response = connection.getresponse()
            return WorkerResponse(response.status, response.headers.get("content-type", ""), response.read())
        finally:
            connection.close()

    async def _run(self) -> int:
        """Runs the process once. Returns its exit code, or minus the number of the signal that ended it."""
        self._starting = anyio.Event()
        try:
            return await self._run_process()
        finally:
            self._has_started()

    def _has_started(self) -> None:
        if self._starting is not None:
            self._starting.set()
            self._starting = None

    async def _run_process(self) -> int:
        # Ctrl-C in a terminal is for the supervisor alone, which stops the workers in order.
        self._process = process = await anyio.open_process(
            [sys.executable, "-m", "mesh", "run", "--worker", str(self._file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(anyio.BrokenResourceError):  # the worker ended at once
                await process.stdin.send(Orders(self.number, self._instance, self._token).to_line())
            log.info("worker started", worker=self.number, pid=process.pid)
            if self._stopping.is_set():
                self._signal(SIGTERM)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen_to, process.stdout)
                code = await process.wait()
                tasks.cancel_scope.cancel()  # a process started by the worker may hold its output open
            return code
        except BaseException as problem:
            if not is_order(problem) and process.returncode is None:
                process.kill()  # another process takes its place
            raise
        finally:
            self._process = self._port = None
            for pipe in (process.stdin, process.stdout):
                await pipe.aclose()

    async def _listen_to(self, output: anyio.abc.ByteReceiveStream) -> None:
        """Reads the output of a worker, which reports its port. Other output comes from reading the configuration, and
        is passed on."""
        lines = BufferedByteReceiveStream(output)
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError):
            while True:
                line = await lines.receive_until(b"\n", LONGEST)
                if line.startswith(ANSWERS_AT):
                    self._port = int(line.removeprefix(ANSWERS_AT))
                    self._has_started()
                else:
                    sys.stderr.buffer.write(line + b"\n")
                    sys.stderr.buffer.flush()

    def _signal(self, number: Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def _reason(code: int) -> str:
    return f"signal {Signals(-code).name}" if code < 0 else f"exit code {code}"
