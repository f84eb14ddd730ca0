"""The offsets in Spark's checkpoint: the lease of a batch, with its ranges in each cluster.

They are pure values; a repeated read needs only them and the upstream logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

VERSION = 1
COMMITTED = "read_committed"
Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""
WORTH_A_TASK = 50_000
"""A number of offsets. A smaller range shares its task with others."""


class ForeignOffset(ValueError):
    """Raised for a checkpoint that was not written by this source, or was written by a later version of it."""


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A run of offsets of one upstream partition, first and last included. topic_id: the id of its topic according to
    the mesh; None if unknown."""

    cluster: str
    topic: str
    partition: int
    first: int
    last: int
    topic_id: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}-{self.partition} {self.first}..{self.last}"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def place(self) -> Place:
        return self.cluster, self.topic, self.partition

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON form. Without an id it is the form from before there were ids, since Spark compares offsets
        as text."""
        named = {name: getattr(self, name) for name in ("cluster", "topic", "partition", "first", "last")}
        return named if self.topic_id is None else named | {"topic_id": self.topic_id}

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> Range:
        place = data["cluster"], data["topic"], data["partition"]
        return Range(*place, data["first"], data["last"], data.get("topic_id"))


@dataclass(frozen=True, slots=True)
class Offset:
    """The offset of a batch in Spark: its lease. lease: None before the first batch. bootstrap: bootstrap servers of
    the clusters of `ranges`, by name. isolation: the isolation level for reading the ranges, also later."""

    holder: str
    lease: str | None = None
    ranges: tuple[Range, ...] = ()
    bootstrap: tuple[tuple[str, str], ...] = ()
    isolation: str = COMMITTED

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON form. With the default isolation it is the form from before there were others, since Spark
        compares offsets as text."""
        return {
            "version": VERSION,
            "holder": self.holder,
            "lease": self.lease,
            "ranges": [each.to_json() for each in self.ranges],
            "bootstrap": dict(self.bootstrap),
            **({} if self.isolation == COMMITTED else {"isolation": self.isolation}),
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> Offset:
        """Returns the offset in a JSON object. Raises ForeignOffset."""
        if data.get("version") != VERSION:
            raise ForeignOffset(f"an offset of version {VERSION} was expected in the checkpoint, not {data!r:.200}")
        ranges = tuple(Range.of_json(each) for each in data["ranges"])
        bootstrap = tuple(sorted(data["bootstrap"].items()))
        return Offset(data["holder"], data["lease"], ranges, bootstrap, data.get("isolation", COMMITTED))


def without(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Returns the parts of these ranges that are in none of the others. Neither list has overlaps in itself."""
    held: dict[Place, list[Range]] = {}
    for other in sorted(others):
        held.setdefault(other.place, []).append(other)
    left: list[Range] = []
    for each in ranges:
        first = each.first
        for other in held.get(each.place, ()):
            if first <= other.last and other.first <= each.last:
                if other.first > first:
                    left.append(replace(each, first=first, last=other.first - 1))
                first = other.last + 1
        if first <= each.last:
            left.append(replace(each, first=first))
    return left


def pieces(ranges: Sequence[Range], least: int) -> list[Range]:
    """Cuts ranges into at least `least` pieces of about the same size, if they have as many offsets. A piece has one
    partition."""
    total = sum(map(len, ranges))
    if not total:
        return []
    size = max(-(-total // max(least, 1)), 1)
    found: list[Range] = []
    for each in ranges:
        count = max(round(len(each) / size), 1)
        step = -(-len(each) // count)
        for first in range(each.first, each.last + 1, step):
            last = min(first + step - 1, each.last)
            found.append(Range(each.cluster, each.topic, each.partition, first, last))
    while len(found) < min(least, total):
        longest = max(found, key=len)
        middle = longest.first + len(longest) // 2
        found.remove(longest)
        found.append(Range(longest.cluster, longest.topic, longest.partition, longest.first, middle - 1))
        found.append(Range(longest.cluster, longest.topic, longest.partition, middle, longest.last))
    return sorted(found)


def tasks(ranges: Sequence[Range], least: int) -> list[tuple[Range, ...]]:
    """Returns the tasks of a batch: the ranges cut into pieces, and small pieces put together, since a task costs tens
    of milliseconds however little it reads. There are at least `least` tasks, if there are as many offsets; each has
    one cluster."""
    cut = pieces(ranges, least)
    most = min(sum(map(len, cut)) // max(least, 1), WORTH_A_TASK)
    found: list[tuple[Range, ...]] = []
    for number, each in enumerate(cut):
        is_enough = len(found) + len(cut) - number > least
        last = found[-1] if found else ()
        if is_enough and last and last[-1].cluster == each.cluster and sum(map(len, last)) + len(each) <= most:
            found[-1] = (*last, each)
        else:
            found.append((each,))
    return found
