"""Exceptions that tests throw where no code has foreseen them: into tasks, callbacks and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from types import coroutine
from typing import Any, Final, TypeVar

import pytest

from mesh import tasks
from mesh.tasks import EndedByItself, GuardedSteps, OwnedTask, TaskName, reporting
from tests.test_tasks import Reports

PLANTED: Final = [
    KeyError("relay"),
    OSError(24, "Too many open files"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    MemoryError(),
    asyncio.CancelledError(),
]
"""Exceptions that no code has foreseen. No code asks for the CancelledError: it comes from another future."""
AWAITS: Final = (1, 2, 5)
"""The awaits of a task at which they are thrown."""
PATIENCE: Final = 0.5
"""Seconds after which an exception is thrown at an earlier await: some tasks have few."""
_MOST_THROWN: Final = 1_000

Test = TypeVar("Test", bound=Callable[..., object])


@coroutine
def throwing(
    work: Awaitable[object], at: int, problem: BaseException, patience: float | None = None
) -> Generator[Any, Any, object]:
    """Awaits `work`, and throws at one of its awaits, counted from 1, and at all later ones: a task may keep the first
    exception to itself. The event loop runs between two throws, as between two awaits: a task group that waits for its
    tasks would wait for ever without it. patience: seconds after which an earlier await is the one. A task that ends
    before fails at its end."""
    steps, count, sent, raised, due = work.__await__(), 0, None, None, list[bool]()
    has_thrown = False
    task = asyncio.current_task()
    assert task is not None

    def hurry() -> None:
        due.append(True)
        task.cancel()

    timer = None if patience is None else asyncio.get_running_loop().call_later(patience, hurry)
    try:
        while True:
            try:
                yielded = steps.send(sent) if raised is None else steps.throw(raised)
            except StopIteration as end:
                if not has_thrown:
                    raise problem from None
                return end.value
            count, sent = count + 1, None
            assert count < at + _MOST_THROWN, "it never ends"
            try:
                if count < at:
                    raised = None
                    sent = yield yielded
                else:
                    if yielded is not None:
                        yielded.cancel()  # else it would take e.g. a connection that is accepted later
                    if raised is problem:
                        yield
                    raised, has_thrown = problem, True
            except BaseException as cancelled:  # noqa: BLE001 - it is passed on
                raised = cancelled
                if due:
                    due.clear()
                    task.uncancel()
                    raised, at, has_thrown = problem, 0, True
    finally:
        if timer is not None:
            timer.cancel()


class Planting:
    """An exception that is thrown once into a task or callback. names: the tasks that it may be planted in. at: the
    await of the task. reports: gets the failures."""

    def __init__(self, names: tuple[TaskName, ...], problem: BaseException, at: int) -> None:
        self.names: Final = names
        self.problem: Final = problem
        self.at: Final = at
        self.reports = Reports()
        self.thrown: set[TaskName] = set()

    def __repr__(self) -> str:
        return f"{type(self.problem).__name__}-{self.at}"

    def throw(self, *_: object, **__: object) -> Any:
        """A call that fails."""
        self.thrown.update(self.names)
        raise self.problem

    @contextmanager
    def into_task(self, *foreseen: type[BaseException], patience: float = PATIENCE) -> Iterator[Reports]:
        """Throws into the first task that has the name. foreseen: see `into_call`."""
        with self.patched(patience), self.into_call(*foreseen) as reports:
            yield reports

    @contextmanager
    def patched(self, patience: float = PATIENCE) -> Iterator[None]:
        """Throws into the first task of each name, and checks nothing."""
        begun, kept, attempt = tasks._begun, tasks._kept, GuardedSteps.attempt

        def into(task: OwnedTask, run: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
            async def thrown() -> object:
                if task.name not in self.names or task.name in self.thrown:
                    return await run()
                self.thrown.add(task.name)
                return await throwing(run(), self.at, self.problem, patience)

            return thrown

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tasks, "_begun", lambda task, run, failed: begun(task, into(task, run), failed))
            patched.setattr(tasks, "_kept", lambda to, task, run, *more: kept(to, task, into(task, run), *more))
            patched.setattr(GuardedSteps, "attempt", lambda of, task, run: attempt(of, task, into(task, run)))
            yield

    @contextmanager
    def into_call(self, *foreseen: type[BaseException]) -> Iterator[Reports]:
        """Checks that the exception was thrown and is reported under its name. foreseen: types that the code handles,
        e.g. as a broker that cannot be reached."""
        self.reports, self.thrown = Reports(), set()
        try:
            with reporting(self.reports):
                yield self.reports
        finally:
            # It would keep the variables of all frames that it has left, and so connections that other tests miss.
            self.problem.__traceback__ = self.problem.__context__ = self.problem.__cause__ = None
        assert self.thrown == set(self.names)
        told = {(task.name, type(problem)) for task, problem, _ in self.reports.failures}
        names, types = {name for name, _ in told}, {each for _, each in told}
        assert names == set(self.names) or (not names and isinstance(self.problem, foreseen)), told
        assert types <= {type(self.problem), EndedByItself}, told


def plants(*names: TaskName, at: tuple[int, ...] = AWAITS) -> Callable[[Test], Test]:
    """Parametrizes a test by all kinds of `planting`. The first one belongs to the gate, all others to a shard.
    names: the tasks that it plants exceptions in. at: (1,) for what has no awaits."""
    first, *others = (Planting(names, problem, each) for problem in PLANTED for each in at)
    plantings = [first, *(pytest.param(each, marks=pytest.mark.long) for each in others)]
    parametrize: Callable[[Test], Test] = pytest.mark.parametrize("planting", plantings, ids=repr)
    return parametrize
