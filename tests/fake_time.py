"""asyncio's own event loop with a clock that jumps: time passes only when nothing is left to do, and at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import signature
from selectors import SelectorKey


class FakeTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 1_000.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


class _Jumping(selectors.SelectSelector):
    """Where the loop would sleep, its clock moves on instead."""

    def __init__(self, loop: FakeTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits for what will never come")
        if not ready and timeout:
            self._loop.jump(timeout)
        return ready


def in_fake_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Makes an async test one for pytest. A test fails on errors that the loop would only log, unless it expects
    them."""

    @wraps(test)
    def run(**values: object) -> None:
        problems: list[BaseException] = []
        with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
            runner.get_loop().set_exception_handler(
                lambda _, context: problems.append(context.get("exception") or AssertionError(context["message"]))
            )
            runner.run(_awaited(test(**values)))
        if problems:
            raise problems[0]

    del run.__dict__["__wrapped__"]  # pytest would look there, and find a coroutine function
    run.__signature__ = signature(test)  # type: ignore[attr-defined]
    return run


async def _awaited(test: Awaitable[None]) -> None:
    await test
