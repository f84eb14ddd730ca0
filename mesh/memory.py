"""Memory for records and for requests, of the whole process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PART_OF_REQUESTS: Final = 4
"""Requests that are taken as a whole may have so many-th of the budget, besides it."""


class MemoryBudget:
    """Bytes of records that all pools of a process keep, and how many they may. Each pool tells of its own."""

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
    """Bytes of requests that are being taken as a whole, and connections that wait to begin with one, in their order.
    limit: how many they may be together; one that is larger is taken when there is no other."""

    __slots__ = ("_limit", "_taken", "_waiting", "used")

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit: Final = limit
        self._taken: Final[dict[object, int]] = {}
        self._waiting: Final[dict[object, tuple[int, Callable[[], None]]]] = {}
        self.used = 0

    def take(self, connection: object, size: int, granted: Callable[[], None]) -> bool:
        """Whether a connection may take a request of so many bytes now. If not, it is told when it may, or asks again:
        its place stays. A connection has one request at a time."""
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
        """It has its request, or is gone."""
        self._waiting.pop(connection, None)
        self.used -= self._taken.pop(connection, 0)
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
