"""The Fetches of one pool's members: their positions and records, and the release of records when members go."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.delivery_events import DeliveryEvents, DeliveryEventType
from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.settings import Acknowledge
from mesh.pool.common.sharing import Sharing
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.distribution.distribution import Distribution
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.fetch.responses import Responses
from mesh.pool.fetch.share_responses import ShareResponses
from mesh.pool.redelivery.dead_letters import DeadLetters
from mesh.pool.redelivery.release import Releases
from mesh.pool.redelivery.rereads import Rereads
from mesh.pool.redelivery.sent_batches import SentBatches
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
from mesh.records.batch import RecordBatch
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode


class Serving:
    """The Fetch path of one pool.

    partitions: the partitions that are assigned, or that a client asked for.
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
        self.delivery_events = DeliveryEvents(
            parts.group, parts.settings.journal, parts.outbox.put, parts.settings.batch_every
        )
        self.slicing = Slicing(parts)
        self.distribution = Distribution(parts, self.slicing, self.partitions, parked)
        self.sent_batches = SentBatches(parts.settings.replay_budget)
        self._responses = Responses(parts, slots, self.distribution, self.sent_batches, self.delivery_events)
        self.dead_letters = DeadLetters(parts, self.distribution, self.slicing, self.delivery_events)
        self.rereads = Rereads(
            parts,
            self.distribution,
            self.slicing,
            self.sent_batches,
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
            parts, self.distribution, self.sent_batches, self.share_releases, self.delivery_events
        )
        self._fenced: set[Member] = set()
        self.voided = 0
        """How often the state of a partition was voided."""
        self.has_share_members = False
        """True if the pool has, or had, share members."""
        self.complete_share_fetches: list[tuple[Ticket, SharedRecords]] = []
        """Complete ShareFetches with their records. Their acknowledgements may have to be stored before they are
        answered."""

    @property
    def fetches(self) -> list[Fetch]:
        """The parked Fetches of this pool, in the order of their arrival."""
        return self.distribution.fetches

    # A Fetch

    def fetch(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: FetchParameters, now: float
    ) -> None:
        self._note_fetch(member, now)
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
        """Handles a Fetch of a share member for these partitions. The acquired records are in `complete_share_fetches`
        when it is complete."""
        self._note_fetch(member, now)
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
        """Prepares for share members. From now on failed deliveries also count by their redelivery rules."""
        if not self.has_share_members:
            self.has_share_members = True
            quarantine = self.distribution.quarantine
            quarantine.add_rules(self.share_releases.redelivery)
            for partition in self.partitions.values():
                partition.suspects = sum(map(quarantine.is_suspected, partition.backlog.values()))

    def _note_fetch(self, member: Member, now: float) -> None:
        member.heard_at = member.fetched_at = now
        if not member.has_fetched:
            member.has_fetched = True
            self.distribution.joined(member, now)
            self.answer_complete(now)

    def _begin(self, fetch: Fetch, now: float) -> None:
        member, partition_fetches = fetch.member, fetch.partition_fetches
        for partition_fetch in partition_fetches:
            self.rereads.resend(fetch, partition_fetch)
        kept = self.distribution.reservations.claim(member, partition_fetches, now)
        blocked = self.distribution.fill(fetch, now)
        for partition in kept:
            self.distribute(partition, now)  # the member may not have these records, or has no room for them
        if fetch.has_failed or fetch.is_satisfied or (blocked and fetch.has_records) or fetch.deadline <= now:
            self.answer(fetch, now)
            return
        self.distribution.park(fetch, now)
        fetch.timer = self._timers.at(fetch.deadline, lambda then: self.answer(fetch, then))

    def answer(self, fetch: Fetch, now: float) -> None:
        """Answers with the collected records, which belong to the member from then on."""
        self.distribution.finish(fetch, now)
        self.answer_complete(now)

    def answer_complete(self, now: float) -> None:
        """Answers the Fetches that the distribution has completed, in its order. Must be called before other decisions
        about their members, since collected records are in no window until then."""
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
            self.complete_share_fetches.append((fetch.ticket, self._share_responses.of(fetch, fetch.terms, now)))

    def cancel(self, fetch: Fetch, now: float) -> None:
        """Cancels a Fetch whose connection has ended. No client will see an answer, so its collected records count as
        never delivered."""
        if fetch.answered:
            return
        self._end(fetch)
        for partition in self.distribution.give_back(fetch, fetch.partition_fetches):
            self.distribute(partition, now)

    def abandon(self, fetch: Fetch) -> None:
        """Answers a Fetch of a pool that is being closed, without its collected records."""
        self.distribution.parked.forget(fetch)
        if fetch.terms is not None:
            self.complete_share_fetches.append((fetch.ticket, SharedRecords()))
            return
        results = tuple(
            FetchedPartition(ErrorCode.NONE, each.offset) if isinstance(each, PartitionFetch) else each
            for each in fetch.requested
        )
        self._outbox.answer(fetch.ticket, FetchResult(results))

    def require_metadata(self, member: Member, topics: set[TopicName], now: float) -> None:
        """Makes the client of a member request metadata, since these topics have more partitions than it knows.

        Every client does so after the error that a broker is not the leader of a partition. So the next answer of a
        Fetch has this error for one partition of each topic.
        """
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

    # Distribution: each method answers the Fetches that it completes

    def distribute(self, partition: Partition, now: float) -> None:
        """Gives the backlog of a partition to waiting Fetches."""
        self.distribution.distribute(partition, now)
        self.answer_complete(now)

    def activate(self, partition: Partition, now: float) -> None:
        """Gives records of a partition from now on, and those in its backlog at once."""
        self.distribution.activate(partition, now)
        self.answer_complete(now)

    def beside_leases(self, are_there: bool, now: float) -> None:
        """Sets whether batch engines lease records of the pool."""
        self.distribution.beside_leases(are_there, now)
        self.answer_complete(now)

    def change_sharing(self, sharing: Sharing, now: float) -> None:
        """Applies changed weights, limits and priorities."""
        self.distribution.change_sharing(sharing, now)
        self.answer_complete(now)

    def disconnected(self, member: Member, now: float) -> None:
        """Notes that a member has lost its last connection."""
        self.distribution.disconnected(member, now)
        self.answer_complete(now)

    def catch_up(self, now: float) -> None:
        """Distributes records that a timer has released."""
        self.distribution.catch_up(now)
        self.answer_complete(now)

    def end_step(self, now: float) -> None:
        """Distributes records that arrived or were released in this step."""
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
        """Releases a member's records of these partitions (`Releases.release`)."""
        self.releases.release(member, sources, cause, now, others_first)
        self.answer_complete(now)

    def reread(
        self,
        partition: Partition,
        token: int,
        batches: tuple[RecordBatch, ...],
        complete: bool,
        error: str,
        log_start: int,
        now: float,
    ) -> None:
        """Handles a part of the reread with this token (`mesh.upstream.engine.Reread`)."""
        again = self.rereads.arrived(partition, token, batches, complete, error, log_start, now)
        if again is not None:
            self._send_again(again.window, now)
            self.rereads.keep(again)
        self.rereads.pump(partition)
        self.answer_complete(now)

    # Settling and releasing

    def settle(self, member: Member, source: UpstreamPartition, offset: int, now: float) -> int:
        """Settles everything below a virtual offset in a member's window. Returns the number of settled offsets."""
        partition, window = self.partitions[source], member.windows[source]
        spans = window.settle(offset)
        if spans:
            member.settled_at = now
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
        """Drops a member that is gone: first its Fetches, then its records."""
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
        """Takes a member's records of these partitions away before it joins again. Its later commits count only for
        later deliveries."""
        for source in sources:
            member.windows[source].fence()
        self.release(member, sources, cause, now)

    def take_fenced(self) -> Iterable[Member]:
        """Returns the members that have lost records since the last call."""
        fenced, self._fenced = self._fenced, set()
        return sorted(fenced, key=lambda member: member.slot)

    def void(self, partition: Partition, members: Iterable[Member]) -> None:
        """Voids the state of a partition that moved to another process, or whose offsets start again."""
        self.voided += 1
        self.distribution.suspend(partition)
        for fetch, partition_fetch in partition.parked.items():
            for available in partition_fetch.collected or ():
                self.distribution.collected_bytes -= available.size
                self.distribution.free(fetch.member, len(available))
                fetch.offsets -= len(available)
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
                    self._fenced.add(member)
            if member.share is not None:
                holding = member.share.by_partition.pop(partition.source, None)
                if holding is not None:
                    self.distribution.free(member, holding.held)
                    holding.take_all()
        self.distribution.forget(partition)
        self.rereads.forget(partition.source)

    # The position of a member

    def partition(self, source: UpstreamPartition) -> Partition:
        partition = self.partitions.get(source)
        if partition is None:
            partition = self.partitions[source] = Partition(source)
            partition.is_awaited = self._topics.is_consumed(source)
            self.distribution.priorities.begin(partition)
        return partition

    def window(self, member: Member, source: UpstreamPartition) -> Window:
        window = member.windows.get(source)
        if window is None:
            self.partition(source)
            window = member.windows[source] = Window(self._slots.start(member.slot))
        return window

    def position(self, member: Member, source: UpstreamPartition) -> int:
        """Returns the position for OffsetFetch: the committed one, never the end of the sent records, never -1."""
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
        """Answers an older Fetch without its collected records. A member's partition is served on one connection at a
        time, the newest."""
        changed = self.distribution.give_back(older, older.partition_fetches)
        self.answer(older, now)
        for partition in changed:
            self.distribute(partition, now)

    def _move(self, member: Member, source: UpstreamPartition, window: Window, offset: int, now: float) -> ErrorCode:
        """Moves a client whose position is above all records sent to it, for example after a seek or a start at the
        latest offset. It continues in a slot above its position, since no client follows a position that jumps back."""
        try:
            start = self._slots.start(member.slot_above(self._slots, offset))
        except SlotsExhausted:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.release(member, [source], Cause.SOUGHT, now, others_first=True)
        window.move(start)
        return ErrorCode.NONE

    def _send_again(self, window: Window, now: float) -> None:
        """Sends a member's records again, if its Fetch waits for them and their bytes are in memory again."""
        fetch = self.distribution.parked.on(window)
        if fetch is not None:
            for partition_fetch in [
                partition_fetch for partition_fetch in fetch.partition_fetches if partition_fetch.window is window
            ]:
                self.rereads.resend(fetch, partition_fetch)
                if partition_fetch.needs_resend and fetch.has_records:  # it has these records, or no room for them
                    self.answer(fetch, now)

    def _end(self, fetch: Fetch) -> None:
        self.distribution.remove(fetch)
        self._cancel_timer(fetch)

    @staticmethod
    def _cancel_timer(fetch: Fetch) -> None:
        if fetch.timer is not None:
            fetch.timer.cancel()
