"""Dead letters: records that are given up are written to the dead-letter topic of their cluster, and then settled."""

from __future__ import annotations

from dataclasses import replace

from mesh.pool.common.delivery_events import DeliveryEvents, DeliveryEventType, Holder
from mesh.pool.common.effects import DeadLetterUpstream, GivenUp
from mesh.pool.common.history import OF_SHARE_MEMBERS, History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.distribution.slicing import Slicing, can_be_cut
from mesh.pool.state.partition import Ownership, Partition, Released
from mesh.pool.state.window import Available
from mesh.records.batch import RecordBatch
from mesh.records.spans import Span

RETRY_AFTER = 5.0
"""Seconds from a failed write of a dead letter to the next attempt."""


class DeadLetters:
    """The records of one pool that are given up."""

    def __init__(
        self, parts: PoolParts, distribution: Distribution, slicing: Slicing, delivery_events: DeliveryEvents
    ) -> None:
        self._group = parts.group
        self._redelivery = parts.settings.redelivery
        self._timers = parts.timers
        self._distribution = distribution
        self._slicing = slicing
        self._outbox = parts.outbox
        self._delivery_events = delivery_events

    def put_back(self, partition: Partition, available: Available) -> None:
        """Puts released records back into their backlog. A record that was delivered in vain too often becomes a dead
        letter."""
        if available.history.is_given_up:
            self.give_up(partition, available.batch, available.span, available.history)
        elif self.has_reached_limit(available):
            self._begin_write(partition, available)
        else:
            self._distribution.backlogs.put(partition, available)

    def give_up(self, partition: Partition, batch: RecordBatch | None, span: Span, history: History) -> None:
        """Gives a span up. Each record becomes a dead letter if dead letters are configured, else it is settled. batch:
        None if it must be read first."""
        self._distribution.touched.add(partition)
        if self._redelivery.limit is None:
            partition.ledger.settle(span.first, span.last)
            self._delivery_events.add(
                DeliveryEventType.GIVEN_UP, partition.source, [span], Holder(history.member), history.count
            )
            self._outbox.put(GivenUp(self._group, partition.source, span, history))
        elif batch is None:
            partition.released[span.first] = Released(span, replace(history, is_given_up=True), None)
        else:
            for record in self._slicing.cut_apart(partition, batch, span):
                self._begin_write(partition, Available(record, history))

    def has_reached_limit(self, available: Available) -> bool:
        """Returns whether this is a single record that has reached the pool's limit of failed deliveries.

        For share members each record of a batch counts by itself, up to another limit, which may be higher. So a batch
        may have come back more often than the pool's limit, and its records must still be told apart.
        """
        history, batch = available.history, available.batch
        if not self._redelivery.has_reached_limit(history) or history.cause in OF_SHARE_MEMBERS:
            return False
        return len(available) == 1 or batch.record_count == 1 or not can_be_cut(batch)

    def _begin_write(self, partition: Partition, available: Available) -> None:
        """Begins to write a dead letter. Until it is written, no member has the record, and it is not settled."""
        partition.dead_lettering[available.batch.first] = available
        self._distribution.touched.add(partition)
        self._write(partition, available)

    def ended(self, partition: Partition, offset: int, error: str, now: float) -> None:
        """Handles the end of an attempt to write the record at an upstream offset. error: "" if the record is written,
        else the reason for the failure."""
        available = partition.dead_lettering.get(offset)
        if available is None or partition.ownership is Ownership.UNASSIGNED:
            return
        fields: dict[str, object] = {"partition": str(partition.source), "offset": offset}
        if error:
            self._timers.at(now + RETRY_AFTER, lambda _: self._try_again(partition, available))
            event = "dead letter not written; retrying"
            self._outbox.report(event, {**fields, "reason": error}, "warning")
            return
        del partition.dead_lettering[offset]
        partition.ledger.settle(offset, available.batch.last)
        self._distribution.touched.add(partition)
        history, span = available.history, Span(offset, available.batch.last)
        self._delivery_events.add(
            DeliveryEventType.DEAD_LETTERED, partition.source, [span], Holder(history.member), history.count
        )
        fields["member"] = history.member
        self._outbox.report("dead letter written", fields, "warning")

    def _try_again(self, partition: Partition, available: Available) -> None:
        if partition.dead_lettering.get(available.batch.first) is available:
            self._write(partition, available)

    def _write(self, partition: Partition, available: Available) -> None:
        self._outbox.put(DeadLetterUpstream(self._group, partition.source, available.batch, available.history))
