"""Releases records of share members: at their request, or when a lock or a session ends.

Each delivery counts, as on a broker. A record that was delivered often enough is given up (`DeadLetters.give_up`). All
others go back to the front of their partition unchanged. No bytes are cut, since the next member learns which offsets
it has acquired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mesh.pool.common.delivery_events import DeliveryEvents
from mesh.pool.common.history import Cause, History, Redelivery
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.redelivery.dead_letters import DeadLetters
from mesh.pool.redelivery.release import Releases
from mesh.pool.redelivery.rereads import Rereads
from mesh.pool.state.acquired import Acquired, Holding
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Ownership, Partition, Released
from mesh.pool.state.window import available_of
from mesh.records.batch import RecordBatch
from mesh.records.runs import batches_with_spans
from mesh.records.spans import Span, UpstreamPartition


class ShareReleases:
    """The releases of share members' records in one pool."""

    def __init__(
        self,
        parts: PoolParts,
        partitions: Mapping[UpstreamPartition, Partition],
        distribution: Distribution,
        releases: Releases,
        rereads: Rereads,
        dead_letters: DeadLetters,
        delivery_events: DeliveryEvents,
    ) -> None:
        self._of_pool = parts.settings.redelivery
        self._settings = parts.share
        self._timers = parts.timers
        self._partitions = partitions
        self._distribution = distribution
        self._releases = releases
        self._rereads = rereads
        self._dead_letters = dead_letters
        self._delivery_events = delivery_events

    @property
    def redelivery(self) -> Redelivery:
        """The redelivery rules for records of share members."""
        return replace(self._of_pool, limit=self._settings.value.delivery_limit)

    def release_all(self, member: Member, cause: Cause, now: float, node: int | None = None) -> None:
        """Releases all records that a member has acquired, or those of its session with one node."""
        assert member.share is not None
        held = member.in_flight
        for source, holding in member.share.by_partition.items():
            if node not in (None, holding.node):
                continue
            self._forget_lock(holding)
            holding.carried_out.clear()
            self._give_back(member, source, holding.take_all(), cause, held, now)

    def release(
        self, member: Member, source: UpstreamPartition, spans: Iterable[Span], cause: Cause, now: float
    ) -> None:
        """Releases these spans of one partition (ascending, none overlapping), as far as the member holds them."""
        assert member.share is not None
        taken = member.share.of(source).take(spans)
        self._give_back(member, source, taken, cause, member.in_flight, now)

    def reject(self, member: Member, source: UpstreamPartition, spans: Iterable[Span]) -> None:
        """Gives up records that a member rejected: no member can process them."""
        assert member.share is not None
        partition = self._partitions[source]
        for acquired in member.share.of(source).take(spans):
            self._free(member, partition, acquired)
            self._note(member, source, acquired, Cause.REJECTED)
            for span, history in self._after(member, acquired, Cause.REJECTED, is_alone=True):
                self._dead_letters.give_up(partition, acquired.kept.batch, span, history)

    def watch(self, member: Member, source: UpstreamPartition, holding: Holding, deadline: float) -> None:
        """Sets a timer for a lock of a member that ends at `deadline`, unless an earlier timer exists."""
        if holding.timer is None or holding.timer.cancelled or holding.timer.when > deadline:
            self._forget_lock(holding)
            holding.timer = self._timers.at(deadline, lambda now: self._look(member, source, holding, now))

    def _look(self, member: Member, source: UpstreamPartition, holding: Holding, now: float) -> None:
        """Releases the runs whose locks have ended."""
        if overdue := holding.overdue(now):
            self.release(member, source, overdue, Cause.LOCK_OVER, now)
        if (deadline := holding.next_deadline()) is not None:
            self.watch(member, source, holding, deadline)

    def _give_back(
        self, member: Member, source: UpstreamPartition, taken: list[Acquired], cause: Cause, held: int, now: float
    ) -> None:
        """Gives back records that were taken from a member, or gives them up. held: the offsets that the member held in
        all."""
        if not taken:
            return  # its session may name a partition that the pool does not have yet
        partition = self._partitions[source]
        for acquired in taken:
            self._free(member, partition, acquired)
            if partition.ownership is Ownership.UNASSIGNED:
                continue
            self._note(member, source, acquired, cause)
            parts = self._after(member, acquired, cause, held == len(acquired))
            for span, history in self._releases.still_wanted(partition, parts):
                if self.redelivery.has_reached_limit(history):
                    self._dead_letters.give_up(partition, acquired.kept.batch, span, history)
                else:
                    self._put_back(partition, acquired.kept.batch, span, history, now)
        self._distribution.note_records(partition)
        self._rereads.pump(partition)

    def _after(self, member: Member, acquired: Acquired, cause: Cause, is_alone: bool) -> list[tuple[Span, History]]:
        return self.redelivery.after_release(
            acquired.span, acquired.history, False, member.name, cause, is_alone=is_alone
        )

    def _note(self, member: Member, source: UpstreamPartition, acquired: Acquired, cause: Cause) -> None:
        if self._delivery_events.is_kept:
            count = acquired.history.count + 1
            self._delivery_events.note_release(cause, source, [acquired.span], member.holder, count)

    def _put_back(
        self, partition: Partition, batch: RecordBatch | None, span: Span, history: History, now: float
    ) -> None:
        if history.count:
            partition.ledger.set_delivery_count(span, history.count)
        if seconds := self._of_pool.rest(history):
            self._releases.rest(partition, Released(span, history, None), now + seconds)
        elif batch is None:
            partition.released[span.first] = Released(span, history, None)
        else:
            for held, part in batches_with_spans(batch, [span]):
                self._distribution.backlogs.put(partition, available_of(held, part, history))

    def _free(self, member: Member, partition: Partition, acquired: Acquired) -> None:
        self._distribution.free(member, len(acquired))
        self._distribution.acquiring.unlock(partition, len(acquired))
        self._distribution.touched.add(partition)

    @staticmethod
    def _forget_lock(holding: Holding) -> None:
        if holding.timer is not None:
            holding.timer.cancel()
