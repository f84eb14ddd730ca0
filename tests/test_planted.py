"""Planted exceptions: every name of a task has a test that plants them, and a CancelledError that no code asks for ends
a task group."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from mesh.tasks import TaskName
from tests.fake_time import FakeTimeLoop, in_fake_time
from tests.planted import Planting, plants, throwing
from tests.test_tasks import cancelled_elsewhere

WITHOUT_AWAITS = {
    TaskName.ADMIN_CONNECTION,
    TaskName.AUTHENTICATION,
    TaskName.CALLBACK,
    TaskName.CATALOG,
    TaskName.CONNECTION,
    TaskName.DEAD_LETTERS,
    TaskName.EFFECT,
    TaskName.ENGINE,
    TaskName.JOURNAL,
    TaskName.LINK,
    TaskName.STEP,
    TaskName.STORE,
    TaskName.THREAD,
    TaskName.UNRAISABLE,
}
"""Callbacks, calls of the event loop to connections, and threads."""


def planted_names() -> tuple[set[TaskName], set[TaskName]]:
    """The names in all decorators `plants`: all of them, and those that are planted in calls only."""
    names, called = set[TaskName](), set[TaskName]()
    for file in Path(__file__).parent.rglob("test_*.py"):
        if "@plants(" not in (text := file.read_text()):
            continue
        for each in ast.walk(ast.parse(text)):
            for decorator in each.decorator_list if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) else ():
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "plants":
                    found = {TaskName[ast.unparse(name).removeprefix("TaskName.")] for name in decorator.args}
                    names |= found
                    called |= found if decorator.keywords else set()
    return names, called


def test_every_name_of_a_task_has_a_test_that_plants_exceptions() -> None:
    names, called = planted_names()
    assert names == set(TaskName), "decorate a test with plants(TaskName.…)"
    assert called == WITHOUT_AWAITS, "plant at the first, second and fifth await"


# The driver


async def _tasks_that_wait() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 5)
        group.start_soon(anyio.sleep_forever)


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("problem", [KeyError("relay"), asyncio.CancelledError()], ids=repr)
@in_fake_time
async def test_a_task_group_ends(problem: BaseException, at: int) -> None:
    """The group waits until each of its tasks has ended. Without the event loop none of them would."""
    with pytest.raises(type(problem)):
        await throwing(_tasks_that_wait(), at, problem, patience=2)
    await asyncio.sleep(1)
    assert len(asyncio.all_tasks()) <= (3 if isinstance(problem, KeyError) else 1)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


# A CancelledError that no code asks for: it comes from a future that other code has cancelled.


async def _later() -> None:
    await asyncio.sleep(1)
    await cancelled_elsewhere()


async def _in_the_body() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        await _later()


async def _in_a_task() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        group.start_soon(_later)


async def _behind_a_shield() -> None:
    with anyio.move_on_after(1_000):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            with anyio.CancelScope(shield=True):
                await _later()


async def _at_a_start() -> None:
    async def begin(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        await _later()

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        await group.start(begin)


async def _at_one_of_several() -> None:
    async with asyncio.timeout(1_000), anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        await asyncio.gather(_later(), _later())


@pytest.mark.parametrize(
    "run", [_in_the_body, _in_a_task, _behind_a_shield, _at_a_start, _at_one_of_several], ids=lambda each: each.__name__
)
def test_a_group_ends_in_a_few_turns_of_the_event_loop(run: Callable[[], Awaitable[None]]) -> None:
    """anyio cancels tasks again in each turn until they end: a task that kept the cancellation to itself would use the
    processor for ever. Here no task does, and the host is not left cancelled."""

    class Counting(FakeTimeLoop):
        turns = 0

        def _run_once(self) -> None:
            self.turns += 1
            assert self.turns < 100
            super()._run_once()  # type: ignore[misc]

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await run()
        except asyncio.CancelledError:
            assert run is not _in_a_task, "a task group passes over the error of a task"
        assert task.cancelling() == 0
        others = asyncio.all_tasks() - {task}
        assert all("_later" in repr(each) for each in others), others

    with asyncio.Runner(loop_factory=Counting) as runner:
        runner.run(main())


# What no code handles


@plants(TaskName.CALLBACK, at=(1,))
@in_fake_time
async def test_a_callback_of_the_event_loop(planting: Planting) -> None:
    with planting.into_call():
        asyncio.get_running_loop().call_soon(planting.throw)
        await asyncio.sleep(1)


@plants(TaskName.THREAD, at=(1,))
def test_a_thread(planting: Planting) -> None:
    async def run() -> None:
        with planting.into_call():
            thread = threading.Thread(target=planting.throw)
            thread.start()
            await asyncio.to_thread(thread.join)
            await asyncio.sleep(0)

    asyncio.run(run())


class Unraisable:
    def __init__(self, planting: Planting) -> None:
        self._planting = planting

    def __del__(self) -> None:
        self._planting.throw()


@plants(TaskName.UNRAISABLE, at=(1,))
def test_an_exception_that_python_cannot_raise(planting: Planting) -> None:
    async def run() -> None:
        with planting.into_call():
            Unraisable(planting)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(run())
