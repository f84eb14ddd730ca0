"""The memory of the whole process for records and for requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PART_OF_REQUESTS: Final = 4
"""The divisor of the budget for requests: those that are read as a whole may take this part of it in addition."""


class MemoryBudget:
    """The bytes of records that all pools of a process keep, and their limit. Each pool adds its own to `used`."""

    __slots__ = ("limit", "requests", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.requests: Final = RequestMemory(lambda: self.limit // PART_OF_REQUESTS)

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.limit

    @property
    def excess(self) -> int:
        return max(self.used - self.limit, 0)


class RequestMemory:
    """The memory for requests that are read as a whole. Connections wait for it in their order. limit: returns the most
    bytes of all such requests together; a larger request is read when there is no other."""

    __slots__ = ("_limit", "_taken", "_waiting", "used")

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit: Final = limit
        self._taken: Final[dict[object, int]] = {}
        self._waiting: Final[dict[object, tuple[int, Callable[[], None]]]] = {}
        self.used = 0

    def take(self, connection: object, size: int, granted: Callable[[], None]) -> bool:
        """Returns whether a connection may take a request of this size now. If not, `granted` is called when it may, or
        the connection asks again and keeps its place. A connection has one request at a time."""
        if connection in self._taken:
            return True
        if self._fits(connection, size):
            self._waiting.pop(connection, None)
            self._taken[connection] = size
            self.used += size
            return True
        self._waiting.setdefault(connection, (size, granted))
        return False

    def give_back(self, connection: object) -> None:
        """Frees the memory of a connection that has its request, or is gone."""
        self.used -= self._taken.pop(connection, 0)
        if not self._waiting:
            return
        self._waiting.pop(connection, None)
        for waiting, (size, granted) in list(self._waiting.items()):
            if not self._fits(waiting, size):
                break
            del self._waiting[waiting]
            self._taken[waiting] = size
            self.used += size
            granted()

    def _fits(self, connection: object, size: int) -> bool:
        first = next(iter(self._waiting), connection)
        return first is connection and (not self._taken or self.used + size <= self._limit())
