"""Memory for the requests of one connection that are read as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mesh.memory import RequestMemory

_SMALL: Final = 64 << 10
"""The size in bytes below which a request does not wait for memory. A chunk is larger."""


class RequestRoom:
    """Memory for the request of one connection that is being read as a whole. Implements `mesh.wire.relaying.Room`."""

    __slots__ = ("_granted", "_memory")

    def __init__(self, memory: RequestMemory, granted: Callable[[], None]) -> None:
        self._memory: Final = memory
        self._granted: Final = granted

    def take(self, size: int) -> bool:
        return size < _SMALL or self._memory.take(self, size, self._grant)

    def give_back(self) -> None:
        self._memory.give_back(self)

    def _grant(self) -> None:
        asyncio.get_running_loop().call_soon(self._granted)
