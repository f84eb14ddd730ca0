"""The worker processes that run interceptors.

A task waits only for the worker that has its work. A worker whose task is abandoned is killed, since its state is
unknown, and another one replaces it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mesh.interceptors.chain import ChainResult
from mesh.interceptors.frames import (
    HEAD,
    LARGEST,
    LARGEST_HEAD,
    InvalidAnswer,
    Task,
    UnreadableRecords,
    chain_result_of,
    encoded_task,
    frame,
)
from mesh.tasks import OwnedTask, Run, TaskName, begin, is_order
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

START: Final = 30.0
"""Seconds that a worker has to create its interceptors."""
BACKOFF: Final = 0.5
MOST_BACKOFF: Final = 10.0
"""The most seconds before a replacement for a worker that could not start."""


class WorkerLost(Exception):
    """Raised when a worker does not start, and when a worker with work ends or sends an invalid answer."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of the worker processes. count: the number of processes. memory: bytes that each may take for its
    work. tasks: the number of tasks after which a worker is replaced. interceptors: as
    `mesh.interceptors.worker.steps_of` has them."""

    count: int
    memory: int
    tasks: int
    interceptors: Sequence[Mapping[str, Any]]


class InterceptorWorker:
    """A worker process with the interceptors of one virtual cluster. It has one task at a time."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.done = 0
        """The number of finished tasks."""
        self.is_busy = False
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, settings: WorkerSettings) -> InterceptorWorker:
        """Starts a worker. Raises WorkerLost, with the message of its interceptors."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "mesh.interceptors.worker",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        worker = cls(process, reader, writer)
        try:
            setup = frame({"interceptors": list(settings.interceptors), "memory": settings.memory}, b"")
            async with asyncio.timeout(START):
                head, _ = await worker._ask(setup)
            if problem := json.loads(head).get("problem"):
                raise WorkerLost(problem)
        except (OSError, EOFError, ValueError, AttributeError, TimeoutError) as problem:
            worker.kill()
            raise WorkerLost(f"it did not begin: {problem!r}") from problem
        except BaseException:
            worker.kill()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None or self._reader.at_eof()

    async def ended(self) -> None:
        """Waits until the process has ended."""
        await self._process.wait()

    async def run(self, task: Task) -> ChainResult | UnreadableRecords:
        """Returns the outcome of a task. Raises WorkerLost. After that, or after a cancellation, the worker is of no
        use."""
        try:
            answer = chain_result_of(*await self._ask(encoded_task(task)))
        except (OSError, EOFError) as problem:
            raise WorkerLost("it ended") from problem
        except (InvalidAnswer, ValueError) as problem:
            raise WorkerLost(f"its answer is none: {problem}") from problem
        self.done += 1
        return answer

    def kill(self) -> None:
        self._writer.transport.abort()
        if self._process.returncode is None:
            self._process.kill()

    async def _ask(self, request: bytes) -> tuple[bytes, bytes]:
        self._writer.write(request)
        await self._writer.drain()
        head_length, length = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        if head_length > LARGEST_HEAD or length > LARGEST:
            raise ValueError(f"an answer of {head_length} and {length} bytes")
        return await self._reader.readexactly(head_length), await self._reader.readexactly(length)


class Workers:
    """The workers of one virtual cluster. lost: the number of workers that ended while they had work."""

    def __init__(self, virtual_cluster: str, settings: WorkerSettings) -> None:
        self.lost = 0
        self._name = virtual_cluster
        self._settings = settings
        self._idle: asyncio.LifoQueue[InterceptorWorker] = asyncio.LifoQueue()
        self._alive: set[InterceptorWorker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks that start workers, or wait for their end."""
        for _ in range(settings.count):
            self._replace()

    @property
    def alive(self) -> int:
        return len(self._alive)

    def pids(self) -> list[int]:
        return [worker.pid for worker in self._alive]

    async def run(self, task: Task) -> ChainResult | UnreadableRecords:
        """Waits for an idle worker, and gives it the task. Raises WorkerLost."""
        worker = await self._idle_one()
        is_good, worker.is_busy = False, True
        try:
            answer = await worker.run(task)
            is_good = True
        except WorkerLost as problem:
            log.warning("worker lost", virtual_cluster=self._name, pid=worker.pid, reason=str(problem))
            raise
        finally:
            worker.is_busy = False
            if is_good and worker.done < self._settings.tasks and not worker.has_ended:
                self._idle.put_nowait(worker)
            else:
                self.lost += not is_good
                self._end(worker)
                self._replace()
        return answer

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for worker in list(self._alive):
            self._end(worker)

    async def _idle_one(self) -> InterceptorWorker:
        """Waits for an idle worker. Replaces workers that ended meanwhile: no work is lost with them."""
        while True:
            worker = await self._idle.get()
            if not worker.has_ended:
                return worker
            self._ended_idle(worker)

    async def _replace_at_its_end(self, worker: InterceptorWorker) -> None:
        await worker.ended()
        if not worker.is_busy:
            self._ended_idle(worker)

    def _ended_idle(self, worker: InterceptorWorker) -> None:
        if worker not in self._alive:
            return  # another worker has replaced it already
        log.warning("idle worker ended", virtual_cluster=self._name, pid=worker.pid)
        idle = [self._idle.get_nowait() for _ in range(self._idle.qsize())]
        for each in reversed(idle):
            if each is not worker:
                self._idle.put_nowait(each)
        self._end(worker)
        self._replace()

    def _end(self, worker: InterceptorWorker) -> None:
        self._alive.discard(worker)
        worker.kill()

    def _replace(self) -> None:
        self._go(self._start)

    def _go(self, work: Run) -> None:
        task = begin(OwnedTask(TaskName.INTERCEPTOR_WORKER, self._name), work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        backoff = BACKOFF
        while True:
            try:
                worker = await InterceptorWorker.start(self._settings)
            except BaseException as problem:
                if is_order(problem):
                    raise
                # Without another attempt there would be one worker less for good.
                log.error("worker not started", virtual_cluster=self._name, reason=str(problem) or repr(problem))
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, MOST_BACKOFF)
                continue
            self._alive.add(worker)
            self._idle.put_nowait(worker)
            self._go(partial(self._replace_at_its_end, worker))
            return
