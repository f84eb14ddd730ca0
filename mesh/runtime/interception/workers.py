"""The processes in which interceptors run. Nothing here waits for one but the tasks that have given it work.

A worker whose task is given up is killed: nobody knows what it is doing. Another one takes its place.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
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
        self._starting: set[asyncio.Task[None]] = set()
        for _ in range(settings.count):
            self._replace()

    @property
    def alive(self) -> int:
        return len(self._alive)

    def pids(self) -> list[int]:
        return [worker.pid for worker in self._alive]

    async def judge(self, task: Task) -> Judged | Unreadable:
        """Waits for a worker that has nothing to do. Raises WorkerLost."""
        worker = await self._idle.get()
        is_good = False
        try:
            answer = await worker.judge(task)
            is_good = True
        except WorkerLost as problem:
            log.warning("a worker was lost", virtual_cluster=self._name, pid=worker.pid, reason=str(problem))
            raise
        finally:
            if is_good and worker.done < self._settings.tasks:
                self._idle.put_nowait(worker)
            else:
                self.lost += not is_good
                self._end(worker)
                self._replace()
        return answer

    def close(self) -> None:
        for task in self._starting:
            task.cancel()
        for worker in list(self._alive):
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        self._alive.discard(worker)
        worker.kill()

    def _replace(self) -> None:
        task = asyncio.get_running_loop().create_task(self._start(), name=f"start a worker of {self._name}")
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

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
            return
