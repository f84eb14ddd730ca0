"""Tasks that fail: none of them ends the others, and those that must go on start again."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from mesh.tasks import (
    LONGEST_REST,
    SETTLED,
    SHORTEST_REST,
    STEADY,
    EndedByItself,
    OwnedTask,
    TaskName,
    Tasks,
    begin,
    keep,
    reporting,
)
from tests.fake_time import in_fake_time

TASK = OwnedTask(TaskName.TOKEN_KEYS, "shop")
OTHER = OwnedTask(TaskName.PEERS)


async def cancelled_elsewhere() -> None:
    waited = asyncio.get_running_loop().create_future()
    waited.cancel()
    await waited


def raising(problem: BaseException) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await anyio.lowlevel.checkpoint()
        raise problem

    return run


@dataclass(slots=True)
class Reports:
    """Implements `TaskReports`."""

    failures: list[tuple[OwnedTask, BaseException, float | None]] = field(default_factory=list)
    working: list[OwnedTask] = field(default_factory=list)
    forgotten: list[OwnedTask] = field(default_factory=list)

    def failed(self, task: OwnedTask, problem: BaseException, rest: float | None) -> None:
        self.failures.append((task, problem, rest))

    def works(self, task: OwnedTask) -> None:
        self.working.append(task)

    def forget(self, task: OwnedTask) -> None:
        self.forgotten.append(task)


class Panic(BaseException):
    """Stands for an exception of an extension module that is no Exception."""


FAILURES = {
    "KeyError": raising(KeyError("relay")),
    "OSError": raising(OSError(24, "Too many open files")),
    "UnicodeDecodeError": raising(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")),
    "MemoryError": raising(MemoryError()),
    "group": raising(ExceptionGroup("two", [ValueError(), KeyError()])),
    "panic": raising(Panic()),
    "CancelledError of its own": cancelled_elsewhere,
}


@in_fake_time
async def test_an_attempt_that_fails_ends_alone() -> None:
    for name, run in FAILURES.items():
        reports, went_on = Reports(), anyio.Event()

        async def other(done: anyio.Event = went_on) -> None:
            await anyio.sleep(10)
            done.set()

        async with anyio.create_task_group() as group:
            tasks = Tasks(group, reports)
            tasks.start(OTHER, other)
            tasks.start(TASK, run)
        assert went_on.is_set(), name
        ((task, _, rest),) = reports.failures
        assert (task, rest) == (TASK, None), name


@in_fake_time
async def test_a_task_that_goes_on_starts_again_after_longer_and_longer_rests() -> None:
    for name, run in FAILURES.items():
        reports = Reports()
        async with anyio.create_task_group() as group:
            Tasks(group, reports).keep(TASK, run)
            await anyio.sleep(250)
            group.cancel_scope.cancel()
        rests = [rest for _, _, rest in reports.failures]
        assert rests == [1, 2, 4, 8, 16, 32, *[LONGEST_REST] * 4], name
        assert reports.forgotten == [TASK]


@in_fake_time
async def test_a_task_that_ends_has_failed() -> None:
    reports = Reports()
    async with anyio.create_task_group() as group:
        Tasks(group, reports).keep(TASK, lambda: anyio.sleep(5))
        await anyio.sleep(5.5)
        group.cancel_scope.cancel()
    ((_, problem, rest),) = reports.failures
    assert (type(problem), rest) == (EndedByItself, SHORTEST_REST)


@in_fake_time
async def test_a_task_works_again_and_long_work_makes_the_next_rest_short() -> None:
    reports, lasting = Reports(), iter([0, 0, SETTLED - 1, SETTLED + 1, STEADY, 1_000])

    async def run() -> None:
        await anyio.sleep(next(lasting))
        raise KeyError("relay")

    async with anyio.create_task_group() as group:
        Tasks(group, reports).keep(TASK, run)
        await anyio.sleep(1_000)
        group.cancel_scope.cancel()
    assert [rest for _, _, rest in reports.failures] == [1, 2, 4, 8, SHORTEST_REST]
    assert reports.working == [TASK] * 3, "not after the runs that were shorter"


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(3)])
def test_an_order_to_end_ends_everything(problem: BaseException) -> None:
    reports = Reports()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            Tasks(group, reports).keep(TASK, raising(problem))
            await anyio.sleep_forever()

    with pytest.raises(type(problem)):
        asyncio.run(run())
    assert not reports.failures


@in_fake_time
async def test_a_start_that_fails_is_told_to_the_caller_and_later_failures_are_not() -> None:
    reports, runs = Reports(), [0]

    async def run(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        runs[0] += 1
        if runs[0] == 1:
            raise OSError("in use")
        task_status.started()
        await anyio.sleep(1)
        raise KeyError("relay")

    async with anyio.create_task_group() as group:
        tasks = Tasks(group, reports)
        with pytest.raises(OSError, match="in use"):
            await tasks.keep_started(TASK, run)
        await tasks.keep_started(TASK, run)
        await anyio.sleep(4)
        group.cancel_scope.cancel()
    assert [rest for _, _, rest in reports.failures] == [1, 2]


@in_fake_time
async def test_what_no_code_awaits_ends_its_owner_after_a_failure() -> None:
    for name, run in FAILURES.items():
        reports, ended = Reports(), list[str]()
        with reporting(reports):
            begin(TASK, run, lambda: ended.append("connection"))  # noqa: B023 - it runs at once
            begin(OTHER, lambda: anyio.sleep(1), lambda: ended.append("other"))  # noqa: B023
            await anyio.sleep(2)
        ((task, _, rest),) = reports.failures
        assert (task, rest, ended) == (TASK, None, ["connection"]), name


@in_fake_time
async def test_what_no_code_awaits_starts_again_until_it_is_cancelled() -> None:
    for name, run in FAILURES.items():
        reports = Reports()
        with reporting(reports):
            task = keep(TASK, run)
            await anyio.sleep(5)
            task.cancel()
            await asyncio.wait([task])
        assert [rest for _, _, rest in reports.failures] == [1, 2, 4], name
        assert (task.cancelled(), reports.forgotten) == (True, [TASK])


@in_fake_time
async def test_a_task_that_is_cancelled_before_it_begins_has_not_failed() -> None:
    reports, ended = Reports(), list[str]()
    with reporting(reports):
        for task in (begin(TASK, anyio.sleep_forever, lambda: ended.append("owner")), keep(TASK, anyio.sleep_forever)):
            task.cancel()
            await asyncio.wait([task])
    assert (reports.failures, ended) == ([], [])


class Unraisable:
    def __del__(self) -> None:
        raise KeyError("gone")


def test_callbacks_threads_and_what_cannot_be_raised_are_told() -> None:
    reports = Reports()

    async def run() -> None:
        with reporting(reports):
            asyncio.get_running_loop().call_soon(raising_now, KeyError("late"))
            thread = threading.Thread(target=raising_now, args=(OSError(24, "Too many open files"),))
            thread.start()
            await asyncio.to_thread(thread.join)
            Unraisable()
            quiet = threading.Thread(target=sys.exit)
            quiet.start()
            await asyncio.to_thread(quiet.join)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    hooks = threading.excepthook, sys.unraisablehook
    asyncio.run(run())
    assert (threading.excepthook, sys.unraisablehook) == hooks
    assert {(task.name, repr(problem)) for task, problem, _ in reports.failures} == {
        (TaskName.CALLBACK, "KeyError('late')"),
        (TaskName.THREAD, "OSError(24, 'Too many open files')"),
        (TaskName.UNRAISABLE, "KeyError('gone')"),
    }


def raising_now(problem: BaseException) -> None:
    raise problem


def test_without_reports_failures_go_to_the_event_loop() -> None:
    told: list[dict[str, object]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        await asyncio.wait([begin(TASK, raising(KeyError("relay")))])

    asyncio.run(run())
    assert [(each["message"], repr(each["exception"])) for each in told] == [
        ("task failed: token_keys", "KeyError('relay')")
    ]
