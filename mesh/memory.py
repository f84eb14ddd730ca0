"""Memory for records, of the whole process."""

from __future__ import annotations


class MemoryBudget:
    """Bytes of records that all pools of a process keep, and how many they may. Each pool tells of its own."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.limit

    @property
    def excess(self) -> int:
        return max(self.used - self.limit, 0)
