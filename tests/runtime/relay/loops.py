"""Event loops for tests, and how they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

import pytest
import uvloop

PATIENCE = 40
"""Seconds that any step may take; only a hang takes so long."""


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - of anything, and what changes it tells nobody
            await asyncio.sleep(0.002)


Test = Callable[..., Awaitable[None]]


def on(*loops: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[Test], Callable[..., None]]:
    """Makes an async test one for pytest, on each of these event loops. A test fails on errors that the loop would only
    log."""

    def decorate(test: Test) -> Callable[..., None]:
        @wraps(test)
        def run(loop: Callable[[], asyncio.AbstractEventLoop], **values: Any) -> None:
            in_loop(loop, lambda: test(**values))

        del run.__dict__["__wrapped__"]  # pytest would look for fixtures there, and find a coroutine function
        run.__signature__ = _with_loop(test)  # type: ignore[attr-defined]
        of_loop: Callable[[Callable[..., None]], Callable[..., None]] = pytest.mark.parametrize(
            "loop", loops, ids=lambda each: each.__module__.partition(".")[0]
        )
        return of_loop(run)

    return decorate


def in_loop(loop: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], Awaitable[None]]) -> None:
    problems: list[BaseException] = []

    async def patiently() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.get_loop().set_exception_handler(
            lambda _, context: problems.append(context.get("exception") or AssertionError(context["message"]))
        )
        runner.run(patiently())
    if problems:
        raise problems[0]


def _with_loop(test: Test) -> Any:
    own = signature(test)
    return own.replace(parameters=[Parameter("loop", Parameter.KEYWORD_ONLY), *_keyword_only(own)])


def _keyword_only(own: Any) -> list[Any]:
    return [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own.parameters.values()]


anyhow = on(uvloop.new_event_loop)
"""On the event loop of production."""
everywhere = on(uvloop.new_event_loop, asyncio.new_event_loop)
