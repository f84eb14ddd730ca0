"""Tasks that no code awaits. A failure of such a task never ends the process: a task of one attempt ends alone, and a
task that runs until the process stops starts again after a rest."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import anyio
import anyio.abc

SHORTEST_REST: Final = 1.0
"""Seconds until a task starts again after its first failure. Each further failure doubles them."""
LONGEST_REST: Final = 60.0
"""The most seconds until a task starts again."""
STEADY: Final = 120.0
"""Seconds of work after which a failure counts as the first one."""
SETTLED: Final = 8.0
"""Seconds after which a task that started again works."""


class Owner(Enum):
    """The part of the process that a task belongs to. A failure concerns only this part."""

    PROCESS = "process"
    CLUSTER = "cluster"
    VIRTUAL_CLUSTER = "virtual cluster"
    GROUP = "group"
    CONNECTION = "connection"
    REQUEST = "request"


class TaskName(Enum):
    """The names of the tasks, each with its owner; the values are labels of a metric, and appear in logs."""

    owner: Owner

    def __new__(cls, label: str, owner: Owner) -> TaskName:
        name = object.__new__(cls)
        name._value_, name.owner = label, owner
        return name

    ACCEPTING = "accepting", Owner.VIRTUAL_CLUSTER
    ADMIN = "admin", Owner.PROCESS
    ADMIN_CONNECTION = "admin_connection", Owner.CONNECTION
    AUTHENTICATION = "authentication", Owner.CONNECTION
    BROKERS = "brokers", Owner.CLUSTER
    CALLBACK = "callback", Owner.PROCESS
    CATALOG = "catalog", Owner.CLUSTER
    CHOICE = "choice", Owner.CONNECTION
    CONNECTION = "connection", Owner.CONNECTION
    DEAD_LETTERS = "dead_letters", Owner.CLUSTER
    EFFECT = "effect", Owner.GROUP
    ENGINE = "engine", Owner.GROUP
    ENGINE_CLOSE = "engine_close", Owner.GROUP
    FETCH = "fetch", Owner.REQUEST
    GROUP_OFFSETS = "group_offsets", Owner.GROUP
    GROUP_RENEWAL = "group_renewal", Owner.CLUSTER
    HANDSHAKE = "handshake", Owner.CONNECTION
    INTAKE = "intake", Owner.GROUP
    INTERCEPTION = "interception", Owner.REQUEST
    INTERCEPTOR_WORKER = "interceptor_worker", Owner.VIRTUAL_CLUSTER
    JOURNAL = "journal", Owner.PROCESS
    LEADERS = "leaders", Owner.VIRTUAL_CLUSTER
    LEG = "leg", Owner.CONNECTION
    LINK = "link", Owner.CLUSTER
    LOGINS = "logins", Owner.CLUSTER
    LOOP_LAG = "loop_lag", Owner.PROCESS
    MEMBERS_ELSEWHERE = "members_elsewhere", Owner.GROUP
    METRICS_EXPORT = "metrics_export", Owner.PROCESS
    MOVE = "move", Owner.VIRTUAL_CLUSTER
    MOVES = "moves", Owner.VIRTUAL_CLUSTER
    NODE_WAIT = "node_wait", Owner.CONNECTION
    PEERS = "peers", Owner.PROCESS
    RELOAD = "reload", Owner.PROCESS
    REMINDERS = "reminders", Owner.PROCESS
    REQUEST = "request", Owner.REQUEST
    SHARE_GROUP = "share_group", Owner.GROUP
    SIGNALS = "signals", Owner.PROCESS
    STEP = "step", Owner.VIRTUAL_CLUSTER
    STOP = "stop", Owner.PROCESS
    STORE = "store", Owner.PROCESS
    THREAD = "thread", Owner.PROCESS
    TOKEN_KEYS = "token_keys", Owner.VIRTUAL_CLUSTER
    TOOL_QUERY = "tool_query", Owner.REQUEST
    TOPOLOGIES = "topologies", Owner.VIRTUAL_CLUSTER
    UNRAISABLE = "unraisable", Owner.PROCESS
    WATCHED_FILES = "watched_files", Owner.PROCESS
    WORKER = "worker", Owner.PROCESS


@dataclass(frozen=True, slots=True)
class OwnedTask:
    """A task and its owner. virtual_cluster, cluster, group: where the owner is; "" where they say nothing."""

    name: TaskName
    virtual_cluster: str = ""
    cluster: str = ""
    group: str = ""


Run: TypeAlias = Callable[[], Awaitable[object]]


class StatusRun(Protocol):
    """A function that reports when it has started."""

    def __call__(self, *, task_status: anyio.abc.TaskStatus[None]) -> Awaitable[object]: ...


class EndedByItself(Exception):
    """The failure of a task that ended, although it should run until the process stops."""


class TaskReports(Protocol):
    """Gets the failures of tasks."""

    def failed(self, task: OwnedTask, problem: BaseException, rest: float | None) -> None:
        """Called when a task has failed. rest: seconds until it starts again; None if it does not."""

    def works(self, task: OwnedTask) -> None:
        """Called when a task has worked for `SETTLED` seconds after a failure."""

    def forget(self, task: OwnedTask) -> None:
        """Called when a task was cancelled."""


class GuardedSteps:
    """Runs steps that no failure may keep from the next ones. reports: gets the failures. has_failed: whether a step
    has failed."""

    def __init__(self, reports: TaskReports) -> None:
        self._reports = reports
        self.has_failed = False

    @contextmanager
    def step(self, task: OwnedTask) -> Iterator[None]:
        """Runs one step, and reports its failure."""
        try:
            yield
        except BaseException as problem:
            if is_order(problem):
                raise
            self.has_failed = True
            self._reports.failed(task, problem, None)

    async def attempt(self, task: OwnedTask, run: Run) -> None:
        """Runs one step of several at the same time."""
        with self.step(task):
            await run()


def begin(task: OwnedTask, run: Run, failed: Callable[[], object] = lambda: None) -> asyncio.Task[None]:
    """Starts a task of one attempt that no code awaits. A failure is reported, and ends only the task. failed: called
    after a failure; ends the owner, if that cannot continue without the task."""
    return asyncio.get_running_loop().create_task(_begun(task, run, failed), name=task.name.value)


def keep(task: OwnedTask, run: Run) -> asyncio.Task[None]:
    """Starts a task that no code awaits, and that runs until it is cancelled: after a failure it rests, and starts
    again."""
    return asyncio.get_running_loop().create_task(_kept(reports(), task, run), name=task.name.value)


def guarded(
    task: OwnedTask, call: Callable[..., object], failed: Callable[[], object] = lambda: None
) -> Callable[..., None]:
    """Returns `call` for an event loop to call later. A failure is reported. failed: called after a failure; ends the
    owner, if that cannot continue."""

    def called(*arguments: object) -> None:
        try:
            call(*arguments)
        except BaseException as problem:  # noqa: BLE001 - no code gets it
            report(task, problem)
            failed()

    return called


def report(task: OwnedTask, problem: BaseException) -> None:
    """Reports the failure of a function that the event loop has called. Raises an order to end the process again."""
    if isinstance(problem, KeyboardInterrupt | SystemExit):
        raise problem
    reports().failed(task, problem, None)


def no_buffer(failed: Callable[[BaseException], object], problem: BaseException) -> ConnectionAbortedError:
    """Returns the exception to raise out of `get_buffer` of a connection. The event loop closes the connection for it;
    uvloop also reports that there is no buffer, but not why. failed: reports the failure, and is called soon: uvloop
    crashes if the connection is closed in `get_buffer`."""
    asyncio.get_running_loop().call_soon(failed, problem)
    return ConnectionAbortedError()


def reports() -> TaskReports:
    """Returns what gets the failures of the running event loop."""
    return reports_of(asyncio.get_running_loop())


def reports_of(loop: asyncio.AbstractEventLoop) -> TaskReports:
    """Returns what gets the failures of an event loop: by default, the loop's exception handler."""
    return _REPORTS.get(loop) or _LoopReports(loop)


@contextmanager
def reporting(to: TaskReports) -> Iterator[None]:
    """Reports all failures that nothing handles to `to`: those of `begin` and `keep`, of callbacks of the running event
    loop, of threads, and exceptions that Python cannot raise."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler(), threading.excepthook, sys.unraisablehook

    def from_thread(name: TaskName, problem: BaseException | None, message: str) -> None:
        if not isinstance(problem, SystemExit):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(to.failed, OwnedTask(name), problem or RuntimeError(message), None)

    def in_callback(_: object, context: dict[str, Any]) -> None:
        to.failed(OwnedTask(TaskName.CALLBACK), context.get("exception") or RuntimeError(context["message"]), None)

    def in_thread(hook: threading.ExceptHookArgs) -> None:
        from_thread(TaskName.THREAD, hook.exc_value, hook.exc_type.__name__)

    def unraisable(hook: sys.UnraisableHookArgs) -> None:
        if isinstance(hook.exc_value, UnicodeDecodeError) and isinstance(hook.object, bytes):
            return  # the host name in a client's handshake; the handshake fails, and is counted
        from_thread(TaskName.UNRAISABLE, hook.exc_value, hook.exc_type.__name__)

    _REPORTS[loop] = to
    loop.set_exception_handler(in_callback)
    threading.excepthook, sys.unraisablehook = in_thread, unraisable
    try:
        yield
    finally:
        del _REPORTS[loop]
        loop.set_exception_handler(before[0])
        _, threading.excepthook, sys.unraisablehook = before


class _LoopReports:
    """Reports failures to the exception handler of an event loop. Implements `TaskReports`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def failed(self, task: OwnedTask, problem: BaseException, rest: float | None) -> None:
        message = f"task failed: {task.name.value}"
        self._loop.call_exception_handler({"message": message, "exception": problem})

    def works(self, task: OwnedTask) -> None: ...

    def forget(self, task: OwnedTask) -> None: ...


_REPORTS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, TaskReports]] = WeakKeyDictionary()


async def finite(run: Callable[..., Awaitable[object]], *arguments: object) -> None:
    """Calls `run` in a task group whose failure is handled. Raises EndedByItself in place of a CancelledError of its
    own, since task groups pass over such an error in silence."""
    try:
        await run(*arguments)
    except asyncio.CancelledError as problem:
        if is_order(problem):
            raise
        raise EndedByItself("cancelled by nothing that may cancel it") from problem


async def endless(run: Callable[..., Awaitable[object]], *arguments: object) -> None:
    """Calls `run` like `finite`; it should run until it is cancelled. Raises EndedByItself if it ends by itself."""
    await finite(run, *arguments)
    raise EndedByItself("ended, although it should run until it is cancelled")


async def _begun(task: OwnedTask, run: Run, failed: Callable[[], object]) -> None:
    try:
        await run()
    except BaseException as problem:
        if is_order(problem):
            raise
        reports().failed(task, problem, None)
        failed()


async def _kept(reports: TaskReports, task: OwnedTask, run: Run, is_started: Callable[[], bool] = lambda: True) -> None:
    rest, settling = SHORTEST_REST, None
    loop = asyncio.get_running_loop()
    try:
        while True:
            began = loop.time()
            try:
                await run()
                raise EndedByItself("ended, although it should run until it is cancelled")
            except BaseException as problem:
                if is_order(problem) or not is_started():
                    raise
                if settling is not None:
                    settling.cancel()
                if loop.time() - began >= STEADY:
                    rest = SHORTEST_REST
                reports.failed(task, problem, rest)
            await anyio.sleep(rest)
            rest = min(2 * rest, LONGEST_REST)
            settling = loop.call_later(SETTLED, reports.works, task)
    finally:
        if settling is not None:
            settling.cancel()
        reports.forget(task)


class Tasks:
    """The tasks of a task group. group: cancels them at the end; none of them ends it. reports: gets their failures."""

    def __init__(self, group: anyio.abc.TaskGroup, reports: TaskReports) -> None:
        self._group = group
        self._reports = reports

    def start(self, task: OwnedTask, run: Run) -> None:
        """Starts a task of one attempt. A failure is reported, and ends only the task."""
        self._group.start_soon(GuardedSteps(self._reports).attempt, task, run)

    def keep(self, task: OwnedTask, run: Run) -> None:
        """Starts a task that runs until it is cancelled, as `keep_running` does."""
        self._group.start_soon(self.keep_running, task, run)

    async def keep_started(self, task: OwnedTask, run: StatusRun) -> None:
        """Starts a task like `keep`, and returns when `run` has reported that it started. Raises the error of `run` if
        it fails before."""
        await self._group.start(self._keep_started, task, run)

    async def keep_running(self, task: OwnedTask, run: Run, is_started: Callable[[], bool] = lambda: True) -> None:
        """Calls `run` until this is cancelled. After a failure it rests, and calls `run` again; to return is a failure,
        too. is_started: failures are raised while it returns False."""
        await _kept(self._reports, task, run, is_started)

    async def _keep_started(self, task: OwnedTask, run: StatusRun, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        first = _FirstStart(task_status)
        await self.keep_running(task, lambda: run(task_status=first), lambda: first.is_started)


class _FirstStart(anyio.abc.TaskStatus[None]):
    """Passes on the first of several starts."""

    def __init__(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._task_status = task_status
        self.is_started = False

    def started(self, value: None = None) -> None:
        if not self.is_started:
            self.is_started = True
            self._task_status.started()


def is_order(problem: BaseException) -> bool:
    """Returns whether an exception is an order to end, and no failure. A CancelledError is a failure if nothing has
    cancelled the running task, or none is running: it comes from something else that was cancelled."""
    match problem:
        case asyncio.CancelledError():
            running = asyncio.current_task()
            return running is not None and running.cancelling() > 0
        case BaseExceptionGroup():
            return any(map(is_order, problem.exceptions))
        case _:
            return isinstance(problem, KeyboardInterrupt | SystemExit | GeneratorExit)
