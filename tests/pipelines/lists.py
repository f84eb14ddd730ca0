"""The part of Spark's RDDs that audits and reports use, over lists: their logic is tested without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any


class Rows:
    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = list(rows)

    def map(self, function: Callable[[Any], Any]) -> Rows:
        return Rows(map(function, self._rows))

    def union(self, other: Rows) -> Rows:
        return Rows([*self._rows, *other._rows])

    def groupByKey(self, _: int = 1) -> Rows:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for key, value in self._rows:
            groups[key].append(value)
        return Rows(groups.items())

    def filter(self, holds: Callable[[Any], bool]) -> Rows:
        return Rows(filter(holds, self._rows))

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> Rows:
        return Rows(each for row in self._rows for each in function(row))

    def reduceByKey(self, function: Callable[[Any, Any], Any]) -> Rows:
        return Rows((key, reduce(function, values)) for key, values in self.groupByKey().collect())

    def fold(self, zero: Any, function: Callable[[Any, Any], Any]) -> Any:
        return reduce(function, self._rows, zero)

    def cache(self) -> Rows:
        return self

    def collect(self) -> list[Any]:
        return self._rows


class Broadcast:
    def __init__(self, value: Any) -> None:
        self.value = value


class Session:
    """Stands for both the session and its context."""

    defaultParallelism = 2

    @property
    def sparkContext(self) -> Session:
        return self

    def broadcast(self, value: Any) -> Broadcast:
        return Broadcast(value)

    def parallelize(self, rows: Iterable[Any], _: int) -> Rows:
        return Rows(rows)

    def emptyRDD(self) -> Rows:
        return Rows([])

    def union(self, parts: Iterable[Rows]) -> Rows:
        return Rows(row for part in parts for row in part.collect())
