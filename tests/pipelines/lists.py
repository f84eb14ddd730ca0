"""As much of Spark's RDDs as an audit uses, over lists: its logic is tested where Spark is not installed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any


class Rows:
    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = list(rows)

    def map(self, function: Callable[[Any], Any]) -> Rows:
        return Rows(map(function, self._rows))

    def union(self, other: Rows) -> Rows:
        return Rows([*self._rows, *other._rows])

    def groupByKey(self, _: int) -> Rows:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for key, value in self._rows:
            groups[key].append(value)
        return Rows(groups.items())

    def collect(self) -> list[Any]:
        return self._rows


class Broadcast:
    def __init__(self, value: Any) -> None:
        self.value = value


class Session:
    """Both the session and its context."""

    defaultParallelism = 2

    @property
    def sparkContext(self) -> Session:
        return self

    def broadcast(self, value: Any) -> Broadcast:
        return Broadcast(value)

    def parallelize(self, rows: Iterable[Any], _: int) -> Rows:
        return Rows(rows)

    def union(self, parts: Iterable[Rows]) -> Rows:
        return Rows(row for part in parts for row in part.collect())
