"""Work on the event loop in slices, so that clients do not wait for all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, TypeVar

SLICE: Final = 0.001
"""Seconds of work until other work of the event loop has its turn."""

_Item = TypeVar("_Item")


async def in_slices(items: Iterable[_Item]) -> list[_Item]:
    """Returns all items. Making one must take a short time. Other code runs between two of them."""
    made: list[_Item] = []
    until = time.perf_counter() + SLICE
    for item in items:
        made.append(item)
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + SLICE
    return made
