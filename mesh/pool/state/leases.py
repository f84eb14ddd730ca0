"""What a lease is, and what it holds of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NewType

from mesh.pool.common.delivery_events import Holder
from mesh.pool.common.history import History
from mesh.pool.state.incarnations import Life
from mesh.records.span_lists import at_or_above, joined
from mesh.records.spans import Span, TopicName, UpstreamPartition

LeaseId = NewType("LeaseId", str)
HolderId = NewType("HolderId", str)
LONGEST_NAME = 64
"""Bytes of a lease's or a holder's name: they stand in the metadata of every commit while the lease lasts."""
LONGEST_TTL = 24 * 3_600.0
"""Seconds that a lease lasts at most, unless it is renewed."""


@dataclass(slots=True, eq=False)
class Lease:
    """A batch engine holds runs of upstream offsets until `deadline` (seconds of the pool's clock).

    lives: which life of each partition it has, or had, something of.
    """

    id: LeaseId
    holder: HolderId
    deadline: float
    lives: dict[UpstreamPartition, Life] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leased:
    """One span that a lease holds of a partition, and its history."""

    span: Span
    history: History
    lease: Lease


@dataclass(frozen=True, slots=True)
class StoredLease:
    """What is kept upstream of a lease for one partition. deadline: seconds since the epoch."""

    id: LeaseId
    holder: HolderId
    deadline: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A run of offsets of one upstream partition, as batch engines are told it. topic_id: of the upstream topic that
    they are of; None if that is not known."""

    partition: UpstreamPartition
    span: Span
    topic_id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A request for a lease. completed: the holder's last lease, which stays; any other of its leases ends. wait:
    seconds. ends: nothing at or above these, and nothing of other partitions; None for all there is. most_bytes: about
    so many at most, by what is known of the size of records; None for no such limit."""

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
    """A lease that was granted before, and whose holder goes on with it. ttl, wait: seconds; wait: until the partitions
    are assigned to this process."""

    id: LeaseId
    holder: HolderId
    ranges: tuple[Range, ...]
    ttl: float
    wait: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """All of a lease that is held, or parts of one that may have ended. size: bytes of the records in it, if the holder
    says."""

    id: LeaseId
    holder: HolderId
    ranges: tuple[Range, ...] | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """A lease that was granted. deadline: seconds of the pool's clock. ranges: none if there is nothing to be had."""

    id: LeaseId
    deadline: float
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class LeaseSettled:
    """What became of the ranges of a claim or an acknowledgement.

    done: of these offsets it is true now. lost: others hold them, or have had them; or they were of another life of
    the log. absent: not assigned to this process, at the moment or any more.
    """

    done: tuple[Range, ...] = ()
    lost: tuple[Range, ...] = ()
    absent: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class NotStored:
    """Not in time; the same may be asked again."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Refused, and nothing was changed: the commit metadata of a partition could not hold what leases would have of it,
    so many runs."""

    partition: UpstreamPartition
    runs: int


@dataclass(frozen=True, slots=True)
class UnknownLease:
    """There is none of that name here, or not of that holder."""


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """Offsets of one partition that nobody has acknowledged: free ones, those leases hold, and all. end: of its log."""

    partition: UpstreamPartition
    available: int
    leased: int
    lag: int
    end: int


@dataclass(frozen=True, slots=True)
class LeaseBacklog:
    """Of each partition that is assigned to this process."""

    partitions: tuple[PartitionBacklog, ...]


def holder_of(lease: Lease) -> Holder:
    """What the journal calls it."""
    return Holder(lease.holder, lease=lease.id)


def stored_leases(held: Iterable[Leased], base: int, epoch: float) -> list[StoredLease]:
    """What has to be kept upstream of what leases hold of a partition. base: the committed offset; what is leased below
    it has no record. epoch: seconds to add for the time of day."""
    spans: dict[Lease, list[Span]] = {}
    for leased in held:
        spans.setdefault(leased.lease, []).append(leased.span)
    kept = {lease: tuple(joined(at_or_above(of, base))) for lease, of in spans.items()}
    return [StoredLease(lease.id, lease.holder, int(lease.deadline + epoch), of) for lease, of in kept.items() if of]
