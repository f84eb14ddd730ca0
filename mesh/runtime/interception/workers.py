"""The processes in which interceptors run. Nothing here waits for one but the tasks that have given it work.

A worker whose task is given up is killed: nobody knows what it is doing. Another one takes its place.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mesh.interceptors.chain import Judged
from mesh.interceptors.frames import (
    HEAD,
    LARGEST,
    LARGEST_HEAD,
    Rubbish,
    Task,
    Unreadable,
    encoded_task,
    frame,
    judged_of,
)
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

START: Final = 30.0
"""Seconds that a worker has to make its interceptors."""
BACKOFF: Final = 0.5
MOST_BACKOFF: Final = 10.0
"""Seconds before another one is started in place of one that could not be."""


class WorkerLost(Exception):
    """A worker ended, or answered what is no answer, while it had work."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """count: of processes. memory: bytes that each may take for its work. tasks: after which it is replaced.
    interceptors: as `mesh.interceptors.worker.steps_of` has them."""

    count: int
    memory: int
    tasks: int
    interceptors: Sequence[Mapping[str, Any]]


class Worker:
    """A process with the interceptors of one virtual cluster. It has one task at a time."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.done = 0
        """Tasks that it has finished."""
        self.is_busy = False
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, settings: WorkerSettings) -> Worker:
        """Raises WorkerLost, with what its interceptors said."""
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
        """Returns when its process has ended."""
        await self._process.wait()

    async def judge(self, task: Task) -> Judged | Unreadable:
        """Raises WorkerLost; it is of no use then, nor after a cancellation."""
        try:
            answer = judged_of(*await self._ask(encoded_task(task)))
        except (OSError, EOFError) as problem:
            raise WorkerLost("it ended") from problem
        except (Rubbish, ValueError) as problem:
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
    """The workers of one virtual cluster. lost: how many have ended with work in their hands."""

    def __init__(self, virtual_cluster: str, settings: WorkerSettings) -> None:
        self.lost = 0
        self._name = virtual_cluster
        self._settings = settings
        self._idle: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        self._alive: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        """Those that start workers, and those that wait for their ends."""
        for _ in range(settings.count):
            self._replace()

    @property
    def alive(self) -> int:
        return len(self._alive)

    def pids(self) -> list[int]:
        return [worker.pid for worker in self._alive]

    async def judge(self, task: Task) -> Judged | Unreadable:
        """Waits for a worker that has nothing to do. Raises WorkerLost."""
        worker = await self._idle_one()
        is_good, worker.is_busy = False, True
        try:
            answer = await worker.judge(task)
            is_good = True
        except WorkerLost as problem:
            log.warning("a worker was lost", virtual_cluster=self._name, pid=worker.pid, reason=str(problem))
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

    async def _idle_one(self) -> Worker:
        """One that has ended while it had nothing to do is none: nothing is lost with it."""
        while True:
            worker = await self._idle.get()
            if not worker.has_ended:
                return worker
            self._ended_idle(worker)

    async def _replace_at_its_end(self, worker: Worker) -> None:
        await worker.ended()
        if not worker.is_busy:
            self._ended_idle(worker)

    def _ended_idle(self, worker: Worker) -> None:
        if worker not in self._alive:
            return  # another one has taken its place already
        log.warning("a worker ended that had nothing to do", virtual_cluster=self._name, pid=worker.pid)
        idle = [self._idle.get_nowait() for _ in range(self._idle.qsize())]
        for each in reversed(idle):
            if each is not worker:
                self._idle.put_nowait(each)
        self._end(worker)
        self._replace()

    def _end(self, worker: Worker) -> None:
        self._alive.discard(worker)
        worker.kill()

    def _replace(self) -> None:
        self._go(self._start(), f"start a worker of {self._name}")

    def _go(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        backoff = BACKOFF
        while True:
            try:
                worker = await Worker.start(self._settings)
            except (WorkerLost, OSError) as problem:
                log.error("a worker could not be started", virtual_cluster=self._name, reason=str(problem))
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, MOST_BACKOFF)
                continue
            self._alive.add(worker)
            self._idle.put_nowait(worker)
            self._go(self._replace_at_its_end(worker), f"wait for the end of a worker of {self._name}")
            return
