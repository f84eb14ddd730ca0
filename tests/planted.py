"""Exceptions that tests throw where no code has foreseen them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

PLANTED = [
    KeyError("relay"),
    OSError(24, "Too many open files"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    MemoryError(),
    asyncio.CancelledError(),
]
"""Exceptions that no code has foreseen."""


def each_planted(*more: object) -> Any:
    """Parametrizes a test by `PLANTED`. The first one belongs to the gate, all others to a shard."""
    first, *others = PLANTED
    problems = [first, *(pytest.param(each, marks=pytest.mark.long) for each in others)]
    return pytest.mark.parametrize("problem", [*problems, *more], ids=lambda each: type(each).__name__)
