"""The process in which users' interceptors run. It judges the records of one partition after the other, until its mesh
ends. It is started as `python -m mesh.interceptors.worker FD`, with a socket as that file descriptor.

Frames go in both directions: the lengths of a JSON head and of the data, then both. The first frame describes the
interceptors, and is answered when they are made; each further one is a task.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from mesh.interceptors.chain import ChainResult, ChainStep, InterceptorFailure, InterceptorName, OnFailure, run_chain
from mesh.interceptors.frames import HEAD, LARGEST, LARGEST_HEAD, Task, encoded_result, frame, task_of
from mesh.interceptors.spi import Outcome
from mesh.interceptors.types import class_of
from mesh.records.batch import CorruptBatch
from mesh.records.rewrite import OldFormatRecords

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches this process, too; the mesh decides when it ends
    _die_with_parent()
    os.dup2(2, 1)  # an interceptor's prints must not become part of the mesh's output
    setup, _ = _receive(connection)
    try:
        steps = steps_of(setup["interceptors"])
    except Exception as problem:  # noqa: BLE001 - of users' code; the mesh reports it
        connection.sendall(frame({"problem": f"{type(problem).__name__}: {problem}"}, b""))
        return
    _limit(setup["memory"])
    connection.sendall(frame({}, b""))
    loop = asyncio.new_event_loop()
    while True:
        head, data = _receive(connection)
        connection.sendall(answer_of(task_of(head, data), steps, loop.run_until_complete))


def steps_of(configured: Sequence[Mapping[str, Any]]) -> dict[InterceptorName, ChainStep]:
    """Makes the interceptors of a virtual cluster. Returns them by name."""
    steps: dict[InterceptorName, ChainStep] = {}
    for each in configured:
        kind = class_of(each["type"])
        made = kind(kind.config.model_validate(each["config"]))
        name = InterceptorName(each["name"])
        steps[name] = ChainStep(name, made, OnFailure(each["on_failure"]))
    return steps


def answer_of(
    task: Task,
    steps: Mapping[InterceptorName, ChainStep],
    complete: Callable[[Coroutine[Any, Any, Sequence[Outcome]]], Sequence[Outcome]],
) -> bytes:
    chain = list(task.chain(steps))
    try:
        result = run_chain(
            chain, memoryview(task.records), task.where, time.perf_counter, complete, task.aborted, task.decided
        )
    except (CorruptBatch, OldFormatRecords) as problem:
        return frame({"unreadable": isinstance(problem, OldFormatRecords), "text": str(problem)}, b"")
    except (ValueError, OverflowError) as problem:  # a record that does not fit into a batch
        text = f"{type(problem).__name__}: {problem}"
        result = ChainResult(failure=InterceptorFailure(task.names[-1], -1, text), is_failed=True)
    return encoded_result(result)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    head_length, data_length = HEAD.unpack(_exactly(connection, HEAD.size))
    if head_length > LARGEST_HEAD or data_length > LARGEST:
        raise SystemExit("a frame of the mesh that is too large")
    head: dict[str, Any] = json.loads(_exactly(connection, head_length))
    return head, _exactly(connection, data_length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray(size)
    view, at = memoryview(received), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            os._exit(0)  # the mesh is gone, or no longer needs this worker
        at += count
    return bytes(received)


def _limit(memory: int) -> None:
    """Limits the memory to this many bytes above the current use."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))


def _die_with_parent() -> None:
    """Makes this process end with its parent, even if the mesh is killed while an interceptor hangs. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
