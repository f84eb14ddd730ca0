"""An order by rank that is made up only when somebody looks at it.

Most Fetches of a pool to which nothing comes are parked and answered without anybody having asked whose turn it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from sortedcontainers import SortedDict

from mesh.pool.state.partition import Rank

Item = TypeVar("Item")


class Ranking(Generic[Item]):
    """Lowest rank first; no two items have the same one. Whoever changes it while iterating begins again."""

    __slots__ = ("_new", "_ordered")

    def __init__(self) -> None:
        self._ordered: SortedDict[Rank, Item] = SortedDict()
        self._new: dict[Rank, Item] = {}
        """What was added since somebody looked."""

    def __len__(self) -> int:
        return len(self._ordered) + len(self._new)

    def add(self, rank: Rank, item: Item) -> None:
        self._new[rank] = item

    def remove(self, rank: Rank) -> None:
        """Raises KeyError if nothing has this rank."""
        if self._new.pop(rank, None) is None:
            del self._ordered[rank]

    def at(self, index: int) -> Item:
        """Raises IndexError if there are not so many."""
        self._order()
        item: Item = self._ordered.peekitem(index)[1]
        return item

    def __iter__(self) -> Iterator[Item]:
        self._order()
        return iter(self._ordered.values())

    def _order(self) -> None:
        if self._new:
            self._ordered.update(self._new)
            self._new.clear()
