"""The checkpoint of a landing: the batches that Spark has planned and finished, and the lease of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""
NONE = -1
"""The number of the last batch if there is none."""


class UnreadableBatch(ValueError):
    """Raised for a file of a checkpoint that is not whole."""


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """The ranges of a batch according to its checkpoint: the lowest and the highest offset of each partition. holder: a
    name that is unique to the checkpoint. lease: empty for a first batch without records."""

    holder: str
    lease: str
    spans: Mapping[Place, tuple[int, int]]

    @staticmethod
    def of(text: str) -> LeasedBatch:
        """Reads the lease of a batch. text: the content of a file in the checkpoint's `offsets`. Raises
        UnreadableBatch."""
        try:
            offset = json.loads(text.splitlines()[2])
        except (IndexError, ValueError):
            raise UnreadableBatch from None
        spans: dict[Place, tuple[int, int]] = {}
        for each in offset["ranges"]:
            place = (each["cluster"], each["topic"], each["partition"])
            first, last = spans.get(place, (each["first"], each["last"]))
            spans[place] = (min(first, each["first"]), max(last, each["last"]))
        return LeasedBatch(offset["holder"], offset["lease"] or "", spans)


class Checkpoint:
    """A checkpoint. offsets, commits: its folders of these names, with `names`, `has` and `read` of Folder. Spark keeps
    the files of the last hundred batches."""

    def __init__(self, offsets: Any, commits: Any) -> None:
        self._offsets = offsets
        self._commits = commits

    def last(self) -> int:
        """Returns the number of the last planned batch, which may be unfinished."""
        return highest(self._offsets.names())

    def finished(self) -> list[int]:
        """Returns the numbers of finished batches, ascending."""
        return sorted(int(each) for each in self._commits.names() if each.isdecimal())

    def has(self, batch: int) -> bool:
        return bool(self._offsets.has(str(batch)))

    def leased(self, batch: int) -> LeasedBatch:
        """Returns the lease of a planned batch. Raises UnreadableBatch."""
        try:
            return LeasedBatch.of(self._offsets.read(str(batch)))
        except UnreadableBatch:
            raise UnreadableBatch(f"its file offsets/{batch} is not whole") from None


def highest(names: Iterable[str]) -> int:
    """Returns the highest number among these names of files."""
    return max((int(each) for each in names if each.isdecimal()), default=NONE)
