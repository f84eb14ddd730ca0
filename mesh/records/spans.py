"""Where records stand upstream: partitions of upstream clusters, and runs of their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

ClusterName = NewType("ClusterName", str)
TopicName = NewType("TopicName", str)


class UpstreamPartition(NamedTuple):
    """One partition of one topic of one upstream cluster. A tuple, since it is the key of everything that is looked up
    for a Fetch: hashing a dataclass runs bytecode each time."""

    cluster: ClusterName
    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A run of upstream offsets of one upstream partition, both ends included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"a span ends before it begins: {self.first}..{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


class Gap(Enum):
    """What an engine knows of offsets of which it brings no record."""

    EMPTY = "read, and there was none: compaction, control records, aborted transactions"
    DELETED = "deleted by retention, or on demand, before they were read"
    UNKNOWN = "one or the other"
    """librdkafka goes on where the log begins by then, without a word to who uses it."""


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """What is committed upstream for one partition: the next offset to read, and text of at most 4,000 characters.

    leader_epoch: no record below the offset, or that the text speaks of, is of a later one; -1 if that is not known.
    is_read: whether the engine has read them all, and can tell.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = field(default=-1, compare=False)
    is_read: bool = field(default=False, compare=False)
