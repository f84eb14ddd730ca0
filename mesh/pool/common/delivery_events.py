"""Delivery events: the decisions of a pool about offsets, for the journal (docs/journal.md).

An event is one decision about one run of upstream offsets of one partition. Events are effects, so their order is that
of the decisions. They have no time. A pool without a journal makes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from mesh.pool.common.history import Cause
from mesh.pool.common.ids import GroupId
from mesh.records.batch import RecordBatch, timestamps_of
from mesh.records.spans import Span, UpstreamPartition


class DeliveryEventType(Enum):
    """The type of an event about a run of offsets. The values appear in the journal."""

    KNOWN = "known"
    """Settled before this process owned the partition: below the committed offset, or in the commit's metadata."""
    DELIVERED = "delivered"
    REDELIVERED = "redelivered"
    """Delivered after another member, or the same one, had released it."""
    LEASED = "leased"
    CORRECTED = "corrected"
    """Two members were confused; the member of this event holds the run."""
    ACKNOWLEDGED = "acknowledged"
    RELEASED = "released"
    """Given back by a member that left, moved its position, or found no room for its commit; or given back by a
    lease."""
    EXPIRED = "expired"
    """Taken from a member that died, fell silent or held it too long, or from a lease that was not renewed."""
    DEAD_LETTERED = "dead_lettered"
    GONE = "gone"
    """Skipped: a member held it, or it waited for redelivery, and it no longer exists upstream."""
    EMPTY = "empty"
    """Read from upstream, but without records. No member can get it."""
    DELETED = "deleted"
    """Skipped: deleted upstream before it was read."""
    REVOKED = "revoked"
    """Everything that members held of the partition is void. The partition moves to another process, or this process
    leaves the group."""
    RESET = "reset"
    """The offsets of the partition start again. Everything known about it is void."""
    TRUNCATED = "truncated"
    """The log has other records from `first` on. Everything known about offsets up to `last` is void."""
    GIVEN_UP = "given_up"
    """Rejected by a share member, delivered too often to share members, or settled by an operator. No dead letter was
    written."""
    REPLAYED = "replayed"
    """Settled before, and read again for an operator. It may be delivered and settled once more."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A member, or a holder of leases. lease: the id of its lease; "" for a member."""

    member: str = ""
    client_id: str = ""
    host: str = ""
    lease: str = ""


NOBODY = Holder()


@dataclass(frozen=True, slots=True)
class DeliveryEvent:
    """One decision about one run of upstream offsets. first, last: both included; last < first if the run is empty.

    * deliveries: the number of deliveries in vain, plus one.
    * produced: for a delivery, the highest timestamp of its first batch, ms since the epoch; -1 if unknown.
    * batch: the batch of a delivery, in some events only. It must not be changed, and its records' offsets mean
      nothing.
    """

    group: GroupId
    kind: DeliveryEventType
    partition: UpstreamPartition
    first: int
    last: int
    holder: Holder = NOBODY
    deliveries: int = 0
    produced: int = -1
    batch: RecordBatch | None = None


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
    """Makes the delivery events of one pool. Check `is_kept` before computing anything for an event."""

    __slots__ = ("_batch_every", "_delivered", "_group", "_put", "is_kept")

    def __init__(
        self, group: GroupId, is_kept: bool, put: Callable[[DeliveryEvent], None], batch_every: int = 0
    ) -> None:
        """batch_every: one in this many deliveries carries its batch; 0 for none."""
        self._delivered = 0
        self._batch_every = batch_every
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
        """Makes an event about each of several spans, ascending. Neighbouring spans make one event."""
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

    def delivered(
        self,
        partition: UpstreamPartition,
        span: Span,
        holder: Holder,
        deliveries: int,
        batch: RecordBatch,
        *,
        is_again: bool,
    ) -> None:
        """Makes the event for a batch, or a part of one, that was sent to a member."""
        if not self.is_kept:
            return
        self._delivered += 1
        is_shown = self._batch_every > 0 and self._delivered % self._batch_every == 0
        _, produced = timestamps_of(batch)
        self._put(
            DeliveryEvent(
                self._group,
                DeliveryEventType.REDELIVERED if is_again else DeliveryEventType.DELIVERED,
                partition,
                span.first,
                span.last,
                holder,
                deliveries,
                produced,
                batch if is_shown else None,
            )
        )

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
        """Makes the events for a partition that this process owns from now on. settled: settled spans above the
        position. There is always a first event, even if nothing is settled."""
        if self.is_kept:
            self._put(DeliveryEvent(self._group, DeliveryEventType.KNOWN, partition, 0, position - 1))
            self.add(DeliveryEventType.KNOWN, partition, settled)

    def void(self, kind: DeliveryEventType, partition: UpstreamPartition) -> None:
        """Makes an event about a whole partition: REVOKED or RESET."""
        if self.is_kept:
            self._put(DeliveryEvent(self._group, kind, partition, 0, -1))
