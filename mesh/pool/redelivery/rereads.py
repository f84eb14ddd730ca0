"""Reads spans again from upstream that members hold or have released, and whose bytes were not kept."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from mesh.pool.common.delivery_events import DeliveryEvents, DeliveryEventType
from mesh.pool.common.effects import Gone, RereadUpstream
from mesh.pool.common.outbox import PoolParts
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.redelivery.choosing import chosen, chosen_at_rate, replayed_of
from mesh.pool.redelivery.dead_letters import DeadLetters
from mesh.pool.redelivery.sent_batches import SentBatches
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch, Released
from mesh.pool.state.window import Available, Delivery, Window
from mesh.records.batch import RecordBatch
from mesh.records.runs import from_offset, include_empty, rebase, split
from mesh.records.span_lists import common, without_span
from mesh.records.spans import Span, UpstreamPartition

CHUNK = 5_000
"""The most offsets that are read again at once."""
RETRY_AFTER = 1.0
"""Seconds from a failed reread to the next one of its partition."""


@dataclass(frozen=True, slots=True)
class DeliveryOwner:
    """The member that holds a delivery, and its window."""

    member: Member
    window: Window


@dataclass(slots=True, eq=False)
class RereadRequest:
    """A span that is being read again, for a member that asks for a delivery again, or for any member (released).

    token: identifies the request at the engine. Records with another token are of an earlier request, whose partition
    was lost or whose engine is gone.
    """

    token: int
    span: Span
    purpose: tuple[DeliveryOwner, Delivery] | Released
    batches: list[RecordBatch] = field(default_factory=list)
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Deliveries of one window whose bytes have been read again, for the member that asked for them."""

    window: Window
    parts: list[Delivery]


class Rereads:
    """The spans to read again, one for each partition at a time. Those that a client waits for come first."""

    def __init__(
        self,
        parts: PoolParts,
        distribution: Distribution,
        slicing: Slicing,
        sent_batches: SentBatches,
        delivery_events: DeliveryEvents,
        dead_letters: DeadLetters,
    ) -> None:
        self._group = parts.group
        self._settings = parts.settings
        self._timers = parts.timers
        self._distribution = distribution
        self._slicing = slicing
        self._sent_batches = sent_batches
        self._outbox = parts.outbox
        self._delivery_events = delivery_events
        self._dead_letters = dead_letters
        self._under_way: dict[UpstreamPartition, RereadRequest] = {}
        self._wanted: dict[UpstreamPartition, dict[Delivery, DeliveryOwner]] = {}
        self._tokens = itertools.count(1)
        self._resting: set[UpstreamPartition] = set()

    def resend(self, fetch: Fetch, partition_fetch: PartitionFetch) -> None:
        """Sends records again, at the same virtual offsets, that the client was sent before and asks for."""
        if not partition_fetch.needs_resend:
            return
        for delivery in partition_fetch.window.sent_from(partition_fetch.position):
            batch = delivery.batch
            if batch is None:
                if partition_fetch.resent is None:
                    self.want(partition_fetch.partition, DeliveryOwner(fetch.member, partition_fetch.window), delivery)
                return
            if partition_fetch.resent is None and partition_fetch.offset < partition_fetch.position:
                batch = self._slicing.cut_front(partition_fetch.partition, delivery, batch)
            batch = from_offset(batch, delivery.first + max(partition_fetch.position - delivery.virtual, 0))
            count = fetch.fitting(partition_fetch, batch)
            if 0 < count < len(batch.marks):
                batch, rest = split(batch, count)
                fetch.resend(partition_fetch, batch, delivery.virtual + rest.first - delivery.first)
                return
            if not count:
                return
            fetch.resend(partition_fetch, batch, delivery.end)

    def want(self, partition: Partition, owner: DeliveryOwner, delivery: Delivery) -> None:
        """Reads a delivery again whose bytes are no longer in memory, because a client asks for it."""
        self._wanted.setdefault(partition.source, {})[delivery] = owner
        self.pump(partition)

    def pump(self, partition: Partition) -> None:
        """Begins to read the next span again, if there is one and its partition has room for it."""
        source = partition.source
        if source in self._under_way or source in self._resting or not partition.is_active:
            return
        request = self._next(partition)
        if request is not None:
            self._under_way[source] = request
            self._outbox.put(RereadUpstream(self._group, request.token, source, request.span))

    def begin_again(self, partition: Partition) -> None:
        """Starts rereads again, because those under way may have records of an earlier log."""
        request = self._under_way.pop(partition.source, None)
        if request is not None and isinstance(request.purpose, tuple):
            owner, delivery = request.purpose
            self._wanted.setdefault(partition.source, {})[delivery] = owner

    def forget(self, source: UpstreamPartition) -> None:
        self._under_way.pop(source, None)
        self._wanted.pop(source, None)

    def arrived(
        self,
        partition: Partition,
        token: int,
        batches: tuple[RecordBatch, ...],
        complete: bool,
        error: str,
        log_start: int,
        now: float,
    ) -> ReadAgain | None:
        """Handles records that were read again (`mesh.upstream.engine.Reread`). Returns those that a member waits for;
        others go to their backlog. Call `pump` afterwards for the next span."""
        source = partition.source
        request = self._under_way.get(source)
        if request is None or request.token != token:
            return None
        span = request.span
        request.batches.extend(batches)
        request.log_start = max(request.log_start, log_start)
        if not complete:
            return None
        del self._under_way[source]
        covered, damage = self._slicing.clip(partition, request.batches, span)
        error = error or damage
        if error:
            self._resting.add(source)
            self._timers.at(now + RETRY_AFTER, lambda _: self._rest_over(partition))
            fields = {"partition": str(partition.source), "span": str(span), "reason": error}
            self._outbox.report("records not read again", fields, "warning")
            span = Span(span.first, covered[-1].last) if covered else Span(span.first, span.first)
            if not covered:
                if isinstance(request.purpose, tuple):
                    owner, delivery = request.purpose
                    self._wanted.setdefault(source, {})[delivery] = owner
                return None
        position = span.first
        for batch in covered:
            include_empty(batch, position)
            position = batch.last + 1
        match request.purpose:
            case Released() as released:
                self._back_to_backlog(partition, released, span, covered, request, now)
                return None
            case (owner, delivery):
                return self._back_to_window(partition, owner, delivery, span, covered, request)

    def keep(self, again: ReadAgain) -> None:
        """Keeps the bytes for the next time, after they were sent. Before that the budget may have no room for them."""
        for part in again.parts:
            if part.batch is not None and part.held:
                self._sent_batches.keep(again.window, part)

    def _rest_over(self, partition: Partition) -> None:
        self._resting.discard(partition.source)
        self.pump(partition)

    def _next(self, partition: Partition) -> RereadRequest | None:
        wanted = self._wanted.get(partition.source, {})
        while wanted:
            delivery, owner = next(iter(wanted.items()))
            del wanted[delivery]
            if delivery.held and delivery.batch is None:
                return RereadRequest(next(self._tokens), _chunk(Span(delivery.first, delivery.last)), (owner, delivery))
        has_room = partition.backlog_bytes * 2 < self._settings.partition_budget
        if partition.released and (has_room or partition.is_full):  # released records make room in a full one
            released: Released = partition.released.peekitem(0)[1]
            return RereadRequest(next(self._tokens), _chunk(released.span), released)
        return None

    def _back_to_backlog(
        self,
        partition: Partition,
        released: Released,
        span: Span,
        covered: list[RecordBatch],
        request: RereadRequest,
        now: float,
    ) -> None:
        if partition.released.get(released.span.first) is not released:
            return
        del partition.released[released.span.first]
        if span.last < released.span.last:
            rest = Span(span.last + 1, released.span.last)
            partition.released[rest.first] = Released(rest, released.history, released.avoid)
        self._skip_empty(partition, span, covered, request)
        if (replayed := replayed_of(partition, span)) is not None:
            covered = chosen_at_rate(self._slicing, partition, replayed, covered, span, now)
        for batch in covered:
            self._dead_letters.put_back(partition, Available(batch, released.history, released.avoid))
        self._distribution.distribute(partition, now)

    def _back_to_window(
        self,
        partition: Partition,
        owner: DeliveryOwner,
        delivery: Delivery,
        span: Span,
        covered: list[RecordBatch],
        request: RereadRequest,
    ) -> ReadAgain | None:
        if not delivery.held or delivery.batch is not None:
            return None
        settled_meanwhile = delivery.first
        parts: list[Delivery] = []
        wanted, replayed = covered, replayed_of(partition, span)
        if replayed is not None:
            wanted = chosen(self._slicing, partition, replayed, covered, span)
        for whole in wanted:
            first = max(whole.first, settled_meanwhile)
            if first <= whole.last:
                virtual = delivery.virtual + first - delivery.first
                batch = from_offset(whole, first)
                part = Delivery(virtual, first, batch.last, batch, delivery.history, since=delivery.since)
                batch.first = first
                rebase(batch, part.base_offset(batch))
                parts.append(part)
        if span.last < delivery.last:
            first = max(span.last + 1, delivery.first)
            virtual = delivery.virtual + first - delivery.first
            parts.append(Delivery(virtual, first, delivery.last, None, delivery.history, since=delivery.since))
        if span.last >= delivery.first:
            self._skip_empty(partition, Span(max(span.first, delivery.first), span.last), covered, request)
        self._distribution.free(owner.member, owner.window.replace(delivery, parts))
        return ReadAgain(owner.window, parts)

    def _skip_empty(self, partition: Partition, span: Span, covered: list[RecordBatch], request: RereadRequest) -> None:
        """Settles offsets that have no record upstream. Deleted ones are reported; compaction and transaction markers
        are usual."""
        self._distribution.touched.add(partition)
        empty = [span]
        for batch in covered:
            empty = without_span(empty, Span(batch.first, batch.last))
        deleted = common(span, Span(span.first, max(request.log_start - 1, span.first)))
        gone = [deleted] if deleted is not None and request.log_start > span.first else []
        for batch in request.batches:
            gone = without_span(gone, Span(batch.base, batch.last))
        for each in empty:
            partition.ledger.settle_empty(each.first, each.last)
        self._delivery_events.add(DeliveryEventType.GONE, partition.source, empty)
        if count := sum(map(len, gone)):
            self._outbox.put(Gone(self._group, partition.source, span, count, was_read=True))


def _chunk(span: Span) -> Span:
    return Span(span.first, min(span.last, span.first + CHUNK - 1))
