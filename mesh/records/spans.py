"""Upstream partitions, and runs of their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

ClusterName = NewType("ClusterName", str)
TopicName = NewType("TopicName", str)


class UpstreamPartition(NamedTuple):
    """One partition of one topic of one upstream cluster. It is a tuple because it is the key of all lookups for a
    Fetch: hashing a dataclass runs bytecode each time."""

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
    """The reason why an engine brings no records for some offsets."""

    EMPTY = "read, and there was none: compaction, control records, aborted transactions"
    DELETED = "deleted by retention, or on demand, before they were read"
    UNKNOWN = "one or the other"
    """librdkafka silently continues at the new start of the log."""


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """The committed position of one partition: the next offset to read, and metadata of at most 4,000 characters.

    leader_epoch: no record below the offset, or in the spans of the metadata, has a later leader epoch; -1 if unknown.
    is_read: whether the engine has read all these records, so that it knows their epochs.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = field(default=-1, compare=False)
    is_read: bool = field(default=False, compare=False)
