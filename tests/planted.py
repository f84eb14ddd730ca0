"""Exceptions that tests throw where no code has foreseen them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

PLANTED = [
    KeyError("relay"),
    OSError(24, "Too many open files"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    MemoryError(),
    asyncio.CancelledError(),
]
"""Exceptions that no code has foreseen."""


Test = TypeVar("Test", bound=Callable[..., object])


def each_planted() -> Callable[[Test], Test]:
    """Parametrizes a test by `PLANTED`. The first one belongs to the gate, all others to a shard."""
    first, *others = PLANTED
    problems = [first, *(pytest.param(each, marks=pytest.mark.long) for each in others)]
    parametrize: Callable[[Test], Test] = pytest.mark.parametrize(
        "problem", problems, ids=lambda each: type(each).__name__
    )
    return parametrize
