"""Fetches of one pool's members: where each one stands, what it is sent, what comes back when it goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.delivery_events import DeliveryEvents, DeliveryEventType
from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.settings import Acknowledge
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.fetch.responses import Responses
from mesh.pool.fetch.share_responses import ShareResponses
from mesh.pool.redelivery.dead_letters import DeadLetters
from mesh.pool.redelivery.release import Releases
from mesh.pool.redelivery.replays import Replays
from mesh.pool.redelivery.rereads import Rereads
from mesh.pool.redelivery.share_releases import ShareReleases
from mesh.pool.state.fetch import (
    AcquireTerms,
    FetchedPartition,
    FetchParameters,
    FetchResult,
    RequestedPartition,
    SharedRecords,
)
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch, SharePartitionFetch
from mesh.pool.state.slots import Slots, SlotsExhausted
from mesh.pool.state.window import Window
from mesh.records.batch import Batch
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode


class Serving:
    """The Fetch path of one pool.

    partitions: those that are assigned or were asked for.
    """

    def __init__(
        self, parts: PoolParts, topics: VirtualTopics, slots: Slots[Member], parked: dict[Ticket, Fetch]
    ) -> None:
        self._topics = topics
        self._slots = slots
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._sequence = itertools.count(1)
        self.partitions: dict[UpstreamPartition, Partition] = {}
        self.delivery_events = DeliveryEvents(parts.group, parts.settings.journal, parts.outbox.put)
        self.slicing = Slicing(parts)
        self.distribution = Distribution(parts, self.slicing, self.partitions, parked)
        self.replays = Replays(parts.settings.replay_budget)
        self._responses = Responses(parts, slots, self.distribution, self.replays, self.delivery_events)
        self.dead_letters = DeadLetters(parts, self.distribution, self.slicing, self.delivery_events)
        self.rereads = Rereads(
            parts,
            self.distribution,
            self.slicing,
            self.replays,
            self.delivery_events,
            self.dead_letters,
        )
        self.releases = Releases(
            parts,
            self.partitions,
            self.distribution,
            self.slicing,
            self.rereads,
            self.dead_letters,
            self.delivery_events,
        )
        self.share_releases = ShareReleases(
            parts,
            self.partitions,
            self.distribution,
            self.releases,
            self.rereads,
            self.dead_letters,
            self.delivery_events,
        )
        self._share_responses = ShareResponses(
            parts, self.distribution, self.replays, self.share_releases, self.delivery_events
        )
        self.has_share_members = False
        """Whether it has, or had."""
        self.shared: list[tuple[Ticket, SharedRecords]] = []
        """ShareFetches that are complete; their acknowledgements may have to be stored before they are answered."""

    @property
    def fetches(self) -> list[Fetch]:
        """The parked Fetches of this pool, in the order in which they came."""
        return self.distribution.fetches

    # A Fetch

    def fetch(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: FetchParameters, now: float
    ) -> None:
        self._hear(member, now)
        requested = self._requested(member, request, now)
        self._begin(Fetch(ticket, connection, member, requested, request, next(self._sequence), now), now)

    def share_fetch(
        self,
        member: Member,
        connection: ConnectionId,
        ticket: Ticket,
        request: FetchParameters,
        sources: Iterable[UpstreamPartition],
        terms: AcquireTerms,
        now: float,
    ) -> None:
        """The same of a share member, of these partitions; what it acquires will be in `shared`."""
        self._hear(member, now)
        requested: list[PartitionFetch | FetchedPartition] = []
        for source in sources:
            window = self.window(member, source)
            if (older := self.distribution.parked.on(window)) is not None:
                self._supersede(older, now)
            partition = self.partitions[source]
            wanted = SharePartitionFetch(partition, window, window.end, request.maximum, most_locks=terms.most_locks)
            requested.append(wanted)
        self._begin(Fetch(ticket, connection, member, requested, request, next(self._sequence), now, terms), now)

    def serve_share_members(self) -> None:
        """There are some: what is delivered in vain counts by their rules as well."""
        if not self.has_share_members:
            self.has_share_members = True
            quarantine = self.distribution.quarantine
            quarantine.also(self.share_releases.redelivery)
            for partition in self.partitions.values():
                partition.suspects = sum(map(quarantine.is_suspected, partition.backlog.values()))

    def _hear(self, member: Member, now: float) -> None:
        member.heard = member.fetched = now
        if not member.has_fetched:
            member.has_fetched = True
            self.distribution.joined(member, now)
            self.answer_complete(now)

    def _begin(self, fetch: Fetch, now: float) -> None:
        member, partition_fetches = fetch.member, fetch.partition_fetches
        for partition_fetch in partition_fetches:
            self.rereads.replay(fetch, partition_fetch)
        kept = self.distribution.reservations.claim(member, partition_fetches, now)
        blocked = self.distribution.fill(fetch, now)
        for partition in kept:
            self.distribute(partition, now)  # what it may not have, or has no room for
        if fetch.has_failed or fetch.is_satisfied or (blocked and fetch.has_records) or fetch.deadline <= now:
            self.answer(fetch, now)
            return
        self.distribution.park(fetch, now)
        fetch.timer = self._timers.at(fetch.deadline, lambda then: self.answer(fetch, then))

    def answer(self, fetch: Fetch, now: float) -> None:
        """Answer with what it has collected. From here on that belongs to its member."""
        self.distribution.finish(fetch, now)
        self.answer_complete(now)

    def answer_complete(self, now: float) -> None:
        """Answer the Fetches that the distribution has finished, in its order; before anything else is decided about
        their members, since what they collected is in no window until then."""
        complete = self.distribution.complete
        while complete:
            fetch = complete[0]
            self._respond(fetch, now)
            self._cancel_timer(fetch)
            complete.popleft()

    def _respond(self, fetch: Fetch, now: float) -> None:
        if fetch.terms is None:
            self._outbox.answer(fetch.ticket, self._responses.of(fetch, now))
        else:
            self.shared.append((fetch.ticket, self._share_responses.of(fetch, fetch.terms, now)))

    def cancel(self, fetch: Fetch, now: float) -> None:
        """Its connection is gone: nobody will see an answer, so what it has collected was never given."""
        if fetch.answered:
            return
        self._end(fetch)
        for partition in self.distribution.give_back(fetch, fetch.partition_fetches):
            self.distribute(partition, now)

    def abandon(self, fetch: Fetch) -> None:
        """Answer with nothing, whatever it has collected: its pool is being closed."""
        self.distribution.parked.forget(fetch)
        if fetch.terms is not None:
            self.shared.append((fetch.ticket, SharedRecords()))
            return
        results = tuple(
            FetchedPartition(ErrorCode.NONE, each.offset) if isinstance(each, PartitionFetch) else each
            for each in fetch.requested
        )
        self._outbox.answer(fetch.ticket, FetchResult(results))

    def require_metadata(self, member: Member, topics: set[TopicName], now: float) -> None:
        """These topics have more partitions than its client knows. Every client asks for metadata when a Fetch is
        answered that this is not the leader of a partition: the next one is, of one partition of each."""
        member.needs_metadata |= topics
        for fetch in self.distribution.parked.of(member):
            has_failed = False
            for index, each in enumerate(fetch.requested):
                if isinstance(each, PartitionFetch) and not each.size:
                    number = self._topics.number(each.partition.source)
                    if number is not None and number[0] in member.needs_metadata:
                        member.needs_metadata.discard(number[0])
                        fetch.requested[index] = FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
                        has_failed = True
            if has_failed:
                self.answer(fetch, now)

    # Records are shared out, and the Fetches that are complete then are answered

    def distribute(self, partition: Partition, now: float) -> None:
        """Give the backlog of a partition to the Fetches that wait."""
        self.distribution.distribute(partition, now)
        self.answer_complete(now)

    def activate(self, partition: Partition, now: float) -> None:
        """Records of this partition may be given again."""
        self.distribution.activate(partition, now)
        self.answer_complete(now)

    def beside_leases(self, are_there: bool, now: float) -> None:
        """Whether batch engines take part from now on."""
        self.distribution.beside_leases(are_there, now)
        self.answer_complete(now)

    def disconnected(self, member: Member, now: float) -> None:
        """A member has lost its last connection."""
        self.distribution.disconnected(member, now)
        self.answer_complete(now)

    def catch_up(self, now: float) -> None:
        """A timer was due, whatever it was for."""
        self.distribution.catch_up(now)
        self.answer_complete(now)

    def end_step(self, now: float) -> None:
        """Share out what has come in this step and what was given up."""
        self.distribution.end_step(now)
        if self.distribution.complete:
            self.answer_complete(now)

    def release(
        self,
        member: Member,
        sources: Iterable[UpstreamPartition],
        cause: Cause,
        now: float,
        others_first: bool = False,
    ) -> None:
        """A member gives up what it holds of these; see `Releases.release`."""
        self.releases.release(member, sources, cause, now, others_first)
        self.answer_complete(now)

    def reread(
        self,
        partition: Partition,
        token: int,
        batches: tuple[Batch, ...],
        complete: bool,
        error: str,
        log_start: int,
        now: float,
    ) -> None:
        """Part of what was asked for by this token came; see `mesh.upstream.engine.Reread`."""
        again = self.rereads.arrived(partition, token, batches, complete, error, log_start, now)
        if again is not None:
            self._send_again(again.window, now)
            self.rereads.keep(again)
        self.rereads.pump(partition)
        self.answer_complete(now)

    # What members give up

    def settle(self, member: Member, source: UpstreamPartition, offset: int, now: float) -> int:
        """A member is through with everything below a virtual offset of its window; returns how many offsets."""
        partition, window = self.partitions[source], member.windows[source]
        spans = window.settle(offset)
        if spans:
            member.settled = now
            spans += window.settle_gap()
        for span in spans:
            partition.ledger.settle(span.first, span.last)
        if spans:
            highest = max(window.acknowledged[0] if window.acknowledged else -1, *(span.last for span in spans))
            window.acknowledged = (highest, partition.ledger.version)
            self.delivery_events.add(DeliveryEventType.ACKNOWLEDGED, source, spans, member.holder)
        count = sum(len(span) for span in spans)
        self.distribution.free(member, count)
        self.distribution.touched.add(partition)
        return count

    def drop(self, member: Member, cause: Cause, now: float) -> None:
        """A member is gone: its Fetches first, then what it holds."""
        for fetch in self.distribution.parked.of(member):
            self._end(fetch)
            returned = self.distribution.give_back(fetch, fetch.partition_fetches)
            self.distribution.touched.update(returned)
            self._respond(fetch, now)
        self.distribution.left(member, now)
        self.answer_complete(now)
        self.release(member, list(member.windows), cause, now)
        if member.share is not None:
            self.share_releases.release_all(member, cause, now)
        if len(self.distribution.members) == 1:
            self.releases.forgive(next(iter(self.distribution.members)), now)
            self.answer_complete(now)
        for partition in self.partitions.values():
            if partition.backlog:
                self.distribute(partition, now)
        member.windows.clear()
        for slot in member.slots:
            self._slots.give_back(slot)

    def fence(self, member: Member, sources: Iterable[UpstreamPartition], cause: Cause, now: float) -> None:
        """A member that is asked to join again loses what it holds of these. What it commits when it has joined is
        about what it is given from here on."""
        for source in sources:
            member.windows[source].fence()
        self.release(member, sources, cause, now)

    def void(self, partition: Partition, members: Iterable[Member]) -> None:
        """Everything known of a partition is void: it went to another process, or its offsets begin anew."""
        self.distribution.suspend(partition)
        for fetch, partition_fetch in partition.parked.items():
            for available in partition_fetch.collected or ():
                self.distribution.collected_bytes -= available.size
                self.distribution.free(fetch.member, len(available))
            fetch.size -= partition_fetch.size
            partition_fetch.collected, partition_fetch.size = None, 0
        unstored = partition.ledger.needs_storing
        for member in members:
            window = member.windows.get(partition.source)
            if window is not None:
                lost = window.release()
                self.distribution.free(member, sum(len(delivery) for delivery in lost))
                window.acknowledged = None
                if unstored or lost:
                    window.fence()
            if member.share is not None:
                holding = member.share.by_partition.pop(partition.source, None)
                if holding is not None:
                    self.distribution.free(member, holding.held)
                    holding.take_all()
        self.distribution.forget(partition)
        self.rereads.forget(partition.source)

    # Where a member stands

    def partition(self, source: UpstreamPartition) -> Partition:
        partition = self.partitions.get(source)
        if partition is None:
            partition = self.partitions[source] = Partition(source)
            partition.is_awaited = self._topics.is_consumed(source)
        return partition

    def window(self, member: Member, source: UpstreamPartition) -> Window:
        window = member.windows.get(source)
        if window is None:
            self.partition(source)
            window = member.windows[source] = Window(self._slots.start(member.slot))
        return window

    def position(self, member: Member, source: UpstreamPartition) -> int:
        """What OffsetFetch answers: the committed position, never what was sent, never -1."""
        window = member.windows.get(source)
        return self._slots.start(member.slot) if window is None else window.committed

    def _requested(
        self, member: Member, request: FetchParameters, now: float
    ) -> list[PartitionFetch | FetchedPartition]:
        seen: set[tuple[TopicName, int]] = set()
        requested: list[PartitionFetch | FetchedPartition] = []
        for asked in request.partitions:
            if asked.topic is None:
                requested.append(FetchedPartition(ErrorCode.UNKNOWN_TOPIC_ID, -1))
            elif (asked.topic, asked.partition) in seen:
                requested.append(FetchedPartition(ErrorCode.INVALID_REQUEST, -1))
            else:
                seen.add((asked.topic, asked.partition))
                requested.append(self._partition_fetch(member, asked.topic, asked, now))
        return requested

    def _partition_fetch(
        self, member: Member, topic: TopicName, asked: RequestedPartition, now: float
    ) -> PartitionFetch | FetchedPartition:
        source = self._topics.partition(topic, asked.partition)
        if source is None:
            return FetchedPartition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        window = self.window(member, source)
        if topic in member.needs_metadata:
            member.needs_metadata.discard(topic)
            return FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        if (older := self.distribution.parked.on(window)) is not None:
            self._supersede(older, now)
        if asked.offset > window.end:
            error = self._move(member, source, window, asked.offset, now)
            if error is not ErrorCode.NONE:
                return FetchedPartition(error, -1)
        elif member.acknowledge is Acknowledge.RECEIPT and window.committed < asked.offset <= window.end:
            count = self.settle(member, source, asked.offset, now)
            member.flow.committed(count, member.in_flight, now)
        return PartitionFetch(self.partitions[source], window, asked.offset, asked.maximum)

    def _supersede(self, older: Fetch, now: float) -> None:
        """A partition of a member is served on one connection at a time, the newest."""
        changed = self.distribution.give_back(older, older.partition_fetches)
        self.answer(older, now)
        for partition in changed:
            self.distribute(partition, now)

    def _move(self, member: Member, source: UpstreamPartition, window: Window, offset: int, now: float) -> ErrorCode:
        """The client stands above everything it was sent (it seeked, or starts at the latest): it goes on in a slot
        above that, since no client follows a position that jumps back."""
        try:
            start = self._slots.start(member.slot_above(self._slots, offset))
        except SlotsExhausted:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.release(member, [source], Cause.SOUGHT, now, others_first=True)
        window.move(start)
        return ErrorCode.NONE

    def _send_again(self, window: Window, now: float) -> None:
        """The bytes of what a member holds are there again, or it holds less than before."""
        fetch = self.distribution.parked.on(window)
        if fetch is not None:
            for partition_fetch in [
                partition_fetch for partition_fetch in fetch.partition_fetches if partition_fetch.window is window
            ]:
                self.rereads.replay(fetch, partition_fetch)
                if partition_fetch.behind and fetch.has_records:  # with the replay, or without room for it
                    self.answer(fetch, now)

    def _end(self, fetch: Fetch) -> None:
        self.distribution.remove(fetch)
        self._cancel_timer(fetch)

    @staticmethod
    def _cancel_timer(fetch: Fetch) -> None:
        if fetch.timer is not None:
            fetch.timer.cancel()
