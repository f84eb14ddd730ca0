"""Leases, their requests and answers, and the spans that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NewType

from mesh.pool.common.delivery_events import Holder
from mesh.pool.common.history import History
from mesh.pool.state.incarnations import Incarnation
from mesh.records.span_lists import at_or_above, merge_adjacent
from mesh.records.spans import Span, TopicName, UpstreamPartition

LeaseId = NewType("LeaseId", str)
HolderId = NewType("HolderId", str)
LONGEST_NAME = 64
"""The most bytes in the name of a lease or a holder. Names are in the metadata of every commit while the lease
lasts."""
LONGEST_TTL = 24 * 3_600.0
"""The most seconds that a lease lasts without renewal."""


@dataclass(slots=True, eq=False)
class Lease:
    """Runs of upstream offsets that a batch engine holds until `deadline` (seconds of the pool's clock).

    incarnations: for each partition of which it holds or held offsets, the incarnation of the log.
    """

    id: LeaseId
    holder: HolderId
    deadline: float
    incarnations: dict[UpstreamPartition, Incarnation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leased:
    """One span that a lease holds of a partition, with its history."""

    span: Span
    history: History
    lease: Lease


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A lease as it is stored upstream, in the metadata of one partition. deadline: seconds since the epoch."""

    id: LeaseId
    holder: HolderId
    deadline: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A run of offsets of one upstream partition, as batch engines see it. topic_id: the id of the upstream topic; None
    if unknown."""

    partition: UpstreamPartition
    span: Span
    topic_id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A request for a lease.

    * most: the most offsets in it. most_bytes: about the most bytes, by the known size of records; None for no limit.
    * completed: the last lease of this holder, which stays. Its other leases end.
    * ttl: seconds that it lasts without renewal. wait: seconds to wait for records.
    * ends: the offset of each partition at which the lease must end; other partitions are left out. None for no bound.
    """

    id: LeaseId
    holder: HolderId
    topics: tuple[TopicName, ...]
    most: int
    ttl: float
    most_bytes: int | None = None
    completed: LeaseId | None = None
    wait: float = 0.0
    ends: Mapping[UpstreamPartition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A holder's request to continue a lease that was granted before, perhaps by another process. ttl: seconds that it
    lasts without renewal. wait: seconds to wait until this process owns the partitions."""

    id: LeaseId
    holder: HolderId
    ranges: tuple[Range, ...]
    ttl: float
    wait: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A request to acknowledge all that a lease holds, or parts of a lease that may have ended. ranges: the parts, None
    for all. size: the bytes of their records, None if the holder does not say."""

    id: LeaseId
    holder: HolderId
    ranges: tuple[Range, ...] | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """The answer to a LeaseRequest. deadline: seconds of the pool's clock. ranges: empty if no records are
    available."""

    id: LeaseId
    deadline: float
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class LeaseSettled:
    """The result of a claim or an acknowledgement, by range.

    * done: the ranges that the lease holds now, or that are acknowledged now.
    * lost: others hold or have held these offsets, or they are of another incarnation of the log.
    * absent: the partition is not assigned to this process now.
    """

    done: tuple[Range, ...] = ()
    lost: tuple[Range, ...] = ()
    absent: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class NotStored:
    """The answer to a request that was not stored upstream in time. The holder may repeat it."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The answer to a refused request: the commit metadata of a partition could not hold the runs of its leases.
    Nothing has changed."""

    partition: UpstreamPartition
    runs: int


@dataclass(frozen=True, slots=True)
class UnknownLease:
    """The answer if there is no lease of that name here, or it has another holder."""


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """The number of unacknowledged offsets of one partition. available: those that are free. leased: those that leases
    hold. lag: all of them. end: the end of the log."""

    partition: UpstreamPartition
    available: int
    leased: int
    lag: int
    end: int


@dataclass(frozen=True, slots=True)
class LeaseBacklog:
    """The unacknowledged offsets of the partitions that are assigned to this process, for holders of leases."""

    partitions: tuple[PartitionBacklog, ...]


@dataclass(frozen=True, slots=True)
class EndUnknown:
    """The answer instead of LeaseBacklog if the cluster of a partition did not say the end of its log in time."""

    partition: UpstreamPartition


def holder_of(lease: Lease) -> Holder:
    """Returns the holder of a lease as the journal names it."""
    return Holder(lease.holder, lease=lease.id)


def stored_leases(held: Iterable[Leased], base: int, epoch: float) -> list[StoredLease]:
    """Returns the leases of a partition to store upstream. base: the committed offset. Leased offsets below it have no
    record, and are left out. epoch: seconds to add for the time of day."""
    spans: dict[Lease, list[Span]] = {}
    for leased in held:
        spans.setdefault(leased.lease, []).append(leased.span)
    kept = {lease: tuple(merge_adjacent(at_or_above(of, base))) for lease, of in spans.items()}
    return [StoredLease(lease.id, lease.holder, int(lease.deadline + epoch), of) for lease, of in kept.items() if of]
