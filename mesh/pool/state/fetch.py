"""A Fetch request and its answer, with virtual topics, partitions and offsets.

The entry of each partition is a tuple. A frozen dataclass takes two to three times as long to make, and a Fetch of a
large topic has sixty entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mesh.pool.common.ids import GroupId
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer


class RequestedPartition(NamedTuple):
    """One partition of a Fetch request. maximum: its partition_max_bytes."""

    topic: TopicName | None
    partition: int
    offset: int
    maximum: int


@dataclass(frozen=True, slots=True)
class FetchParameters:
    """The parameters of a Fetch. minimum: min_bytes. maximum: max_bytes. wait: max_wait_ms, in seconds."""

    partitions: Sequence[RequestedPartition]
    minimum: int
    maximum: int
    wait: float


@dataclass(frozen=True, slots=True)
class AcquireTerms:
    """The limits under which a ShareFetch acquires records. All count offsets.

    * most: the number wanted (max_records).
    * is_exact: whether `most` is a strict limit. If not, whole batches are acquired until there are as many.
    * longest_range: the longest range in the answer, unless a range is a single batch.
    * most_locks: the most acquired offsets of one partition, by all share members together.
    """

    most: int
    is_exact: bool
    longest_range: int
    most_locks: int


class FetchedPartition(NamedTuple):
    """The answer to a Fetch for one partition. records: whole batches with virtual offsets; empty if there are none.
    high_watermark: -1 if there is an error."""

    error: ErrorCode
    high_watermark: int
    records: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """The counts of an answer. topics: the number of records and of bytes, by topic. redelivered: records that were
    sent before, to this or another member, and given back."""

    group: GroupId
    topics: Mapping[TopicName, tuple[int, int]]
    redelivered: int
    is_new: bool
    """True if part of it was never sent to a member. Records that a client gives back and acquires again are not
    new."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The answer to a Fetch. partitions: one entry for each partition of the request, in its order."""

    partitions: tuple[FetchedPartition, ...]
    delivered: Delivered | None = None


class AcquiredSpan(NamedTuple):
    """Upstream offsets that a share member has acquired. deliveries: the number of deliveries, including this one."""

    first: int
    last: int
    deliveries: int


class SharedPartition(NamedTuple):
    """The answer to a ShareFetch for one partition. records: whole batches. acquired: the spans of them that are for
    this member. Both are ascending."""

    source: UpstreamPartition
    records: tuple[Buffer, ...]
    acquired: tuple[AcquiredSpan, ...]


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """The records that a ShareFetch has acquired, from the partitions that this process owns."""

    partitions: tuple[SharedPartition, ...] = ()
    delivered: Delivered | None = None
