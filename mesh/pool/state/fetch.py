"""What a Fetch asks, and what it is answered, in virtual terms.

What there is for each partition is a tuple: a frozen dataclass takes two to three times as long to make, and a Fetch
of a large topic has sixty of them.
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
    """One partition of a Fetch request, in virtual terms. maximum: partition_max_bytes."""

    topic: TopicName | None
    partition: int
    offset: int
    maximum: int


@dataclass(frozen=True, slots=True)
class FetchParameters:
    """What a Fetch asks for. maximum: max_bytes; minimum: min_bytes; wait: seconds (max_wait_ms)."""

    partitions: Sequence[RequestedPartition]
    minimum: int
    maximum: int
    wait: float


@dataclass(frozen=True, slots=True)
class AcquireTerms:
    """How a share member acquires. most: offsets, as they are counted for records. is_exact: no more than `most`; else
    whole batches until there are as many. longest_range: offsets that a range of the answer may have, unless it is of
    one batch. most_locks: offsets of one partition that all share members together may have."""

    most: int
    is_exact: bool
    longest_range: int
    most_locks: int


class FetchedPartition(NamedTuple):
    """What a Fetch is answered for one partition. records: whole batches, re-based; empty where nothing is to be had.
    high_watermark: -1 with an error."""

    error: ErrorCode
    high_watermark: int
    records: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """What an answer holds, for those who count: records and bytes by topic. redelivered: records that another member,
    or this one, was sent before and gave up."""

    group: GroupId
    topics: Mapping[TopicName, tuple[int, int]]
    redelivered: int
    is_new: bool
    """Whether some of it was sent to nobody before. What a client gives back and takes again is not new."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """One entry for every partition of the request, in its order."""

    partitions: tuple[FetchedPartition, ...]
    delivered: Delivered | None = None


class AcquiredSpan(NamedTuple):
    """Upstream offsets that a share member has from now on. deliveries: how often they were delivered, this time
    included."""

    first: int
    last: int
    deliveries: int


class SharedPartition(NamedTuple):
    """What a ShareFetch is answered for one partition. records: whole batches, of which only `acquired` are for this
    member; both ascending."""

    source: UpstreamPartition
    records: tuple[Buffer, ...]
    acquired: tuple[AcquiredSpan, ...]


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """What a ShareFetch has acquired; nothing of the partitions that are not here."""

    partitions: tuple[SharedPartition, ...] = ()
    delivered: Delivered | None = None
