"""Records that are given up: written to the dead-letter topic of their cluster, and only then settled."""

from __future__ import annotations

from dataclasses import replace

from mesh.pool.common.delivery_events import DeliveryEvents, DeliveryEventType, Holder
from mesh.pool.common.effects import DeadLetterUpstream, GivenUp
from mesh.pool.common.history import History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.state.partition import Ownership, Partition, Released
from mesh.pool.state.window import Available
from mesh.records.batch import Batch
from mesh.records.spans import Span

RETRY_AFTER = 5.0
"""Seconds between a dead letter that could not be written and the next attempt."""


class DeadLetters:
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
        """What was given up goes back to its backlog, unless it was delivered in vain often enough."""
        if available.history.is_given_up:
            self.give_up(partition, available.batch, available.span, available.history)
        elif self.is_over(available):
            self._bury(partition, available)
        else:
            self._distribution.backlogs.put(partition, available)

    def give_up(self, partition: Partition, batch: Batch | None, span: Span, history: History) -> None:
        """Nobody is given this span any more: a dead letter is written of each record, where they are configured, else
        it is settled. batch: None if it is to be read again before."""
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
                self._bury(partition, Available(record, history))

    def is_over(self, available: Available) -> bool:
        return self._redelivery.is_over(available.history)

    def _bury(self, partition: Partition, available: Available) -> None:
        """Until it is written it is nobody's, and not settled."""
        partition.dead_lettering[available.batch.first] = available
        self._distribution.touched.add(partition)
        self._write(partition, available)

    def ended(self, partition: Partition, offset: int, error: str, now: float) -> None:
        """An attempt to write the record at an upstream offset; error: why it failed, "" if it did not."""
        available = partition.dead_lettering.get(offset)
        if available is None or partition.ownership is Ownership.UNASSIGNED:
            return
        fields: dict[str, object] = {"partition": str(partition.source), "offset": offset}
        if error:
            self._timers.at(now + RETRY_AFTER, lambda _: self._try_again(partition, available))
            event = "a dead letter could not be written and is tried again"
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
        self._outbox.report("a record was given up as a dead letter", fields, "warning")

    def _try_again(self, partition: Partition, available: Available) -> None:
        if partition.dead_lettering.get(available.batch.first) is available:
            self._write(partition, available)

    def _write(self, partition: Partition, available: Available) -> None:
        self._outbox.put(DeadLetterUpstream(self._group, partition.source, available.batch, available.history))
