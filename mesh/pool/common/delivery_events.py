"""What a pool decided about which offsets, for whoever keeps a journal of it (docs/journal.md).

An event is one decision about one run of upstream offsets of one partition, whatever number of records it holds. They
are effects like any other, so they stand in the order of the decisions; nobody's clock is in them. Where no journal is
kept none are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from mesh.pool.common.history import Cause
from mesh.pool.common.ids import GroupId
from mesh.records.spans import Span, UpstreamPartition


class DeliveryEventType(Enum):
    """What happened to a run of offsets; the values stand in the journal."""

    KNOWN = "known"
    """It was settled before this process had the partition: below the committed offset, or in the commit's metadata."""
    DELIVERED = "delivered"
    REDELIVERED = "redelivered"
    """Delivered after somebody else, or the same member, had given it up."""
    LEASED = "leased"
    CORRECTED = "corrected"
    """Two members were taken for each other: it is this one that holds it."""
    ACKNOWLEDGED = "acknowledged"
    RELEASED = "released"
    """Given back by a member that left, went on elsewhere or found no room for its commit, or by a lease."""
    EXPIRED = "expired"
    """Taken from a member that died, fell silent or held too long, or from a lease that was not renewed."""
    DEAD_LETTERED = "dead_lettered"
    GONE = "gone"
    """Held or to be delivered again, and not there any more upstream: passed over."""
    EMPTY = "empty"
    """Read from upstream, and there was no record: nobody can be given these."""
    DELETED = "deleted"
    """Deleted upstream before it was read: passed over."""
    REVOKED = "revoked"
    """Everything that was held of the partition is void: it goes to another process, or this one leaves its group."""
    RESET = "reset"
    """The offsets of the partition begin anew: whatever was known of it is void."""
    TRUNCATED = "truncated"
    """The log is another one from `first` on: whatever was known of it from there on, up to `last`, is void."""
    GIVEN_UP = "given_up"
    """Rejected by a share member, or delivered too often to such, and settled without a dead letter."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A member, or a holder of leases. lease: the id of its lease, "" for a member."""

    member: str = ""
    client_id: str = ""
    host: str = ""
    lease: str = ""


NOBODY = Holder()


@dataclass(frozen=True, slots=True)
class DeliveryEvent:
    """One decision about one run of upstream offsets. first, last: upstream offsets, both included; last < first where
    it is about no offset.

    deliveries: how often it was delivered in vain before, and once more. produced: of what is delivered, the highest
    timestamp of its first batch, ms since the epoch; -1 where it is not known.
    """

    group: GroupId
    kind: DeliveryEventType
    partition: UpstreamPartition
    first: int
    last: int
    holder: Holder = NOBODY
    deliveries: int = 0
    produced: int = -1


_TAKEN = frozenset(
    {
        Cause.EXPIRED,
        Cause.AWAY,
        Cause.REPLACED,
        Cause.SILENT,
        Cause.HELD,
        Cause.LOCK_OVER,
        Cause.SESSION_ENDED,
    }
)


class DeliveryEvents:
    """Makes them for one pool. Look at `is_kept` before anything is worked out for one."""

    __slots__ = ("_group", "_put", "is_kept")

    def __init__(self, group: GroupId, is_kept: bool, put: Callable[[DeliveryEvent], None]) -> None:
        self._group = group
        self.is_kept = is_kept
        self._put = put

    def add(
        self,
        kind: DeliveryEventType,
        partition: UpstreamPartition,
        spans: Iterable[Span],
        holder: Holder = NOBODY,
        deliveries: int = 0,
        produced: int = -1,
    ) -> None:
        """The same about several spans, ascending; neighbours are one."""
        if not self.is_kept:
            return
        first, last = 0, -1
        for span in spans:
            if span.first == last + 1 and last >= first:
                last = span.last
                continue
            if last >= first:
                self._put(DeliveryEvent(self._group, kind, partition, first, last, holder, deliveries, produced))
            first, last = span.first, span.last
        if last >= first:
            self._put(DeliveryEvent(self._group, kind, partition, first, last, holder, deliveries, produced))

    def note_release(
        self, cause: Cause, partition: UpstreamPartition, spans: Iterable[Span], holder: Holder, deliveries: int
    ) -> None:
        self.add(
            DeliveryEventType.EXPIRED if cause in _TAKEN else DeliveryEventType.RELEASED,
            partition,
            spans,
            holder,
            deliveries,
        )

    def began(self, partition: UpstreamPartition, position: int, settled: Iterable[Span]) -> None:
        """A partition is this process's from here on; `settled` lies above the position. The first event of it is
        always there, also where nothing was settled."""
        if self.is_kept:
            self._put(DeliveryEvent(self._group, DeliveryEventType.KNOWN, partition, 0, position - 1))
            self.add(DeliveryEventType.KNOWN, partition, settled)

    def void(self, kind: DeliveryEventType, partition: UpstreamPartition) -> None:
        """REVOKED or RESET."""
        if self.is_kept:
            self._put(DeliveryEvent(self._group, kind, partition, 0, -1))
