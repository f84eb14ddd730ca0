"""A pool: the members that share one group of one virtual cluster, and their common state.

Every public method is the first half of a step: it decides, and leaves effects in the outbox. `finish` is the second
half of each step. Nothing here does IO or reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from mesh.apis.answers import ConnectionId, Ticket
from mesh.memory import MemoryBudget
from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.effects import LeaveUpstream
from mesh.pool.common.history import Cause
from mesh.pool.common.ids import MemberId
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.results import TopicPartition
from mesh.pool.common.settings import Acknowledge
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.groups.consumer_protocol import ConsumerHeartbeat, ConsumerProtocol
from mesh.pool.groups.coordinator import GroupCoordinator
from mesh.pool.groups.locks import Locks
from mesh.pool.groups.member_index import MemberIndex
from mesh.pool.groups.members import Members
from mesh.pool.groups.membership import JoinRequest
from mesh.pool.groups.share_protocol import ShareHeartbeat, ShareProtocol
from mesh.pool.intake.backpressure import Backpressure
from mesh.pool.intake.cluster_drain import ClusterDrain
from mesh.pool.intake.drain import DrainState, PoolDrain
from mesh.pool.intake.intake import Intake
from mesh.pool.intake.stalls import Stalls
from mesh.pool.interventions import Interventions
from mesh.pool.leases.service import Leases
from mesh.pool.offsets.commits import Commits, Need
from mesh.pool.replay.service import Replaying
from mesh.pool.share.requests import SharedFetch
from mesh.pool.share.service import ShareService
from mesh.pool.state.fetch import FetchParameters
from mesh.pool.state.leases import Acknowledgement, Claim, LeaseRequest, Range
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Ownership, Partition
from mesh.pool.state.slots import SLOTS, Slots, is_end, slot_of
from mesh.records.spans import CommitPosition, TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode


class Pool:
    """One group of one virtual cluster, with its members, partitions and commits. It closes when it has been without
    members for a while, and leaves its upstream groups."""

    def __init__(
        self,
        parts: PoolParts,
        acknowledge: Acknowledge,
        topics: VirtualTopics,
        slots: Slots[Member],
        clients: MemberIndex,
        memory: MemoryBudget,
        parked: dict[Ticket, Fetch],
        now: float,
    ) -> None:
        self.group = parts.group
        self._settings = parts.settings
        self._topics = topics
        self._slots = slots
        self.timers = parts.timers
        self.share_settings = parts.share
        self._outbox = parts.outbox
        self.is_closed = False
        self.serving = Serving(parts, topics, slots, parked)
        self.commits = Commits(parts)
        self.members = members = Members(parts, acknowledge, slots, clients, self.serving)
        self.coordinator = GroupCoordinator(parts, members)
        self.consumer_protocol = ConsumerProtocol(parts, self.coordinator, topics)
        self.share_protocol = ShareProtocol(parts, self.coordinator, topics)
        self._memory = memory
        self._backpressure = Backpressure(parts, memory)
        self.leases = Leases(parts, topics, self.serving, self.commits)
        self.replaying = Replaying(parts, self.serving, members, self.commits)
        self.intake = Intake(
            parts, topics, self.serving, self.commits, self.leases, self.replaying, self._backpressure, members
        )
        self.share = ShareService(parts, topics, self.serving, self.commits, members, self.coordinator, self.intake)
        self.stalls = Stalls(parts, self.serving.partitions, self.commits, now)
        Locks(parts, self.serving, members, self.leases.are_wanted).start(now)
        self.interventions = Interventions(parts, self.serving, members)
        self._seen = (False, False)
        """The conditions on which `_throttle_engines` acted last: whether only holders of leases were present, and
        whether a request waited for records."""
        self.draining = PoolDrain(parts, self.serving, self.commits, self.intake, self._backpressure, members)
        self.leaving = ClusterDrain(parts, self.serving, self.commits, self.intake, self._backpressure, members)
        self.is_expelled = False
        """True if its group is no longer admitted. The pool ends when it is drained."""
        self._used = now
        self._linger(now)  # no member has joined yet, and perhaps none will

    def __repr__(self) -> str:
        return f"<Pool {self.group}: {len(self.members)} members, {len(self.members.groupless)} without group>"

    @property
    def partitions(self) -> Mapping[UpstreamPartition, Partition]:
        return self.serving.partitions

    # Members

    def join(self, ticket: Ticket, request: JoinRequest, connection: ConnectionId, now: float) -> Member | None:
        """Adds a member with the classic protocol. Returns the member if the request was accepted; its answer comes
        later."""
        member_id = self.coordinator.join(ticket, request, connection, now)
        return self.members.by_id[member_id] if member_id is not None else None

    def consumer_heartbeat(
        self, ticket: Ticket, request: ConsumerHeartbeat, connection: ConnectionId, now: float
    ) -> Member | None:
        """Handles a ConsumerGroupHeartbeat. Returns its member; None if it has none."""
        return self._connected_member(self.consumer_protocol.heartbeat(ticket, request, connection, now), connection)

    def share_heartbeat(
        self, ticket: Ticket, request: ShareHeartbeat, connection: ConnectionId, now: float
    ) -> Member | None:
        """Handles a ShareGroupHeartbeat. Returns its member; None if it has none."""
        return self._connected_member(self.share_protocol.heartbeat(ticket, request, connection, now), connection)

    def _connected_member(self, member_id: MemberId | None, connection: ConnectionId) -> Member | None:
        if member_id is None:
            return None
        member = self.members.by_id[member_id]
        member.connections.add(connection)
        return member

    def disconnected(self, member: Member, connection: ConnectionId, now: float) -> None:
        """Handles the end of a member's connection. After its last one the member expires in `fast_expiry` seconds,
        unless it connects again."""
        self.members.disconnected(member, connection, now)
        if member.share is not None:
            self.share.disconnected(member, connection, now)
        if not member.connections:
            self.timers.at(now + self._settings.fast_expiry, lambda then: self._expire_if_away(member, now, then))

    def _expire_if_away(self, member: Member, since: float, now: float) -> None:
        if member.connections or member.away_since != since:
            return  # the member is back
        if member in self.members.groupless:
            self.members.forget_groupless(member, Cause.AWAY, now)
        elif self.members.by_id.get(member.id) is member:
            self.coordinator.expire(member.id, Cause.AWAY, now)

    def fire_next(self, now: float) -> bool:
        """Carries out one timer that is due, and its consequences for waiting Fetches. Returns False if no timer is
        due."""
        if not self.timers.fire_next(now):
            return False
        if not self.is_closed:
            self.serving.catch_up(now)
        return True

    # Stop

    def _linger(self, now: float) -> None:
        """Keeps the empty pool for `linger` seconds: a member often comes back."""
        self._empty_since = now
        self.timers.at(now + self._settings.linger, self._end_if_empty)

    def _end_if_empty(self, now: float) -> None:
        if self.is_closed or self.members or now < self._empty_since + self._settings.linger:
            return
        if self.coordinator.expects_members or self.leases.are_wanted(now):
            self.timers.at(now + self._settings.linger, self._end_if_empty)
            return
        self.end(now)

    def end(self, now: float) -> None:
        """Answers every waiting Fetch with its collected records, leaves the upstream groups, and commits all
        acknowledgements with that."""
        for fetch in self.serving.fetches:
            self.serving.answer(fetch, now)
        self._close(self.commits.unstored(self.partitions.values()))

    def close_after_violation(self) -> None:
        """Closes a pool whose state cannot be trusted. It answers every request, and its members come back to a new
        pool."""
        for fetch in [*self.serving.distribution.complete, *self.serving.fetches]:
            self.serving.abandon(fetch)
        self._close({})

    def _close(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        self.is_closed = True
        for source, partition in self.partitions.items():
            if partition.ownership is not Ownership.UNASSIGNED:
                self.serving.delivery_events.void(DeliveryEventType.REVOKED, source)
        self._backpressure.close()
        self._slots.give_back_all(lambda owner: owner.group == self.group)
        self.members.forget_all()
        self.coordinator.close(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.commits.close(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.leases.close()
        self.share.close()
        self._outbox.put(LeaveUpstream(self.group, positions))

    def partitions_grew(self, topics: frozenset[TopicName], now: float) -> None:
        """Makes the clients that fetch from these topics ask for new metadata. Otherwise they would see the new
        partitions only with their next Metadata request, minutes later
        (docs/decisions/0024-new-partitions-are-seen-at-once.md)."""
        for member in list(self.members):
            if member.share is not None:
                continue  # its next heartbeat assigns them
            numbers = (self._topics.number(source) for source in member.windows)
            if needs_metadata := {number[0] for number in numbers if number is not None} & topics:
                self.serving.require_metadata(member, needs_metadata, now)
                self.coordinator.require_metadata(member.id, now)

    def unused_for(self, now: float) -> float:
        """Returns the seconds since the last Fetch, or since the pool was made. 0 while a member holds records or has a
        waiting Fetch, and while there are leases."""
        if self.leases.are_wanted(now) or any(member.in_flight or member.parked for member in self.members):
            return 0.0
        return now - self._used

    # Requests

    def fetch(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: FetchParameters, now: float
    ) -> None:
        for topic in dict.fromkeys(asked.topic for asked in request.partitions):
            if topic is not None:
                self.intake.consume(topic)
        member.connections.add(connection)
        self._used = now
        self.serving.fetch(member, connection, ticket, request, now)

    def share_fetch(
        self,
        member: Member,
        node: int,
        connection: ConnectionId,
        ticket: Ticket,
        request: SharedFetch,
        now: float,
    ) -> None:
        self._used = now
        self.share.fetch(member, node, connection, ticket, request, now)

    def committed_offsets(
        self, member: Member, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ErrorCode, int]]:
        offsets: dict[TopicPartition, tuple[ErrorCode, int]] = {}
        for topic, index in names:
            source = self._topics.partition(topic, index)
            if source is None:
                offsets[topic, index] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            else:
                offsets[topic, index] = (ErrorCode.NONE, self.serving.position(member, source))
        return offsets

    def commit(
        self, member: Member, ticket: Ticket, positions: Sequence[tuple[TopicName, int, int]], now: float
    ) -> None:
        """Commits positions: (topic, partition, virtual offset) each. The request is answered when everything that can
        be stored upstream is stored."""
        member.heard_at = now
        errors: dict[TopicPartition, ErrorCode] = {}
        needs: dict[UpstreamPartition, Need] = {}
        total = 0
        for topic, index, offset in positions:
            source = self._topics.partition(topic, index)
            if source is None:
                errors[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            error, count = self._acknowledge(member, source, offset, now)
            errors[topic, index] = error
            total += count
            window = member.windows.get(source)
            if error is ErrorCode.NONE and window is not None and window.acknowledged is not None:
                # A commit that settles nothing waits, too: it may repeat one that was not stored in time.
                highest, version = window.acknowledged
                needs[source] = Need((topic, index), self.partitions[source].ledger, version, highest)
        if total:
            member.flow.committed(total, member.in_flight, now)
        for source in self._unstorable(member, needs, total > 0, now):
            errors[needs.pop(source).name] = self.coordinator.lost(member.id)
        self.commits.await_stored(ticket, errors, needs, partial(self.coordinator.lost, member.id), now)

    def _unstorable(
        self, member: Member, needs: Mapping[UpstreamPartition, Need], goes_on: bool, now: float
    ) -> list[UpstreamPartition]:
        """Returns the partitions whose commit was repeated for `lock_timeout` and still does not fit into the metadata.

        Some clients repeat such a commit forever and process nothing meanwhile. They may hold the very records that
        would make room. So the member has to rejoin, which makes its client drop the commit. Its uncommitted records of
        these partitions are released: then it gets the lowest ones first, and does not have to rejoin again a hundred
        records later.
        """
        full = [source for source, need in needs.items() if self.partitions[source].is_full and not need.is_stored]
        if goes_on or not full:
            member.unstored_since = None
        elif member.unstored_since is None:
            member.unstored_since = now
        elif now - member.unstored_since >= self._settings.lock_timeout:
            member.unstored_since = None
            if self.coordinator.ask_to_join_again(member.id):
                fields = {"member": member.name, "partitions": [str(each) for each in full]}
                self._outbox.report("member repeats a commit that does not fit", fields, "warning")
                self.serving.fence(member, full, Cause.NO_ROOM, now)
                return full
        return []

    def _acknowledge(self, member: Member, source: UpstreamPartition, offset: int, now: float) -> tuple[ErrorCode, int]:
        owner = self._slots.owner(slot_of(offset)) if offset >= 0 and not is_end(offset) else member
        # A client that joined again may commit records that it held before. Some clients exit if that is refused.
        is_gone = owner is None and slot_of(offset) < SLOTS
        if owner is not member and not is_gone:
            return ErrorCode.OFFSET_OUT_OF_RANGE, 0
        window = member.windows.get(source)
        committed, end = (window.committed, window.end) if window is not None else (self._slots.start(member.slot),) * 2
        if window is not None and window.is_fenced:
            # Also for records that the member got after the fence: it has processed the lost ones before them.
            window.is_fenced = self.coordinator.ask_to_join_again(member.id)
            return self.coordinator.lost(member.id), 0
        if owner is member and window is not None and committed < offset <= end:
            return ErrorCode.NONE, self.serving.settle(member, source, offset, now)
        if owner is member and offset > end and not is_end(offset):
            return ErrorCode.OFFSET_OUT_OF_RANGE, 0
        return ErrorCode.NONE, 0

    def lease(self, ticket: Ticket, request: LeaseRequest, now: float) -> None:
        for topic in request.topics:
            self.intake.consume(topic)
        self.leases.create(ticket, request, now)

    def await_lease_backlog(self, ticket: Ticket, topics: tuple[TopicName, ...], wait: float, now: float) -> None:
        for topic in topics:
            self.intake.consume(topic)
        self.leases.await_backlog(ticket, topics, wait, now)

    def claim(self, ticket: Ticket, claim: Claim, now: float) -> None:
        self._want(claim.ranges)
        self.leases.claim(ticket, claim, now)

    def acknowledge_lease(self, ticket: Ticket, wanted: Acknowledgement, now: float) -> None:
        """Acknowledges a lease. This may be the first request after the pool left its upstream groups."""
        self._want(wanted.ranges or ())
        self.leases.acknowledge(ticket, wanted, now)

    def _want(self, ranges: Iterable[Range]) -> None:
        for each in ranges:
            if (number := self._topics.number(each.partition)) is not None:
                self.intake.consume(number[0])

    # The end of a step

    def finish(self, now: float) -> None:
        """Carries out the second half of a step: distribution, commits, backpressure and draining.

        `Pools.stepped` calls it when the first half has returned, unless the pool is closed by then. The first half is
        any method of the pool or of its parts. So those methods need not care about waiting Fetches, commits and
        engines. Raises Violation.
        """
        for member in self.serving.take_fenced():
            self._ask_to_join_again(member)
        touched = self._share_and_store(now)
        self._read_further(touched)
        self._advance_drain(now)
        self._throttle_engines(touched, now)
        self.leases.stored()
        self.share.answer()
        if self.members.were_emptied:
            self.members.were_emptied = False
            self._linger(now)
        # This comes last: the step may have drained the pool.
        if self.is_expelled and self.draining.drain_state is DrainState.DRAINED:
            self.end(now)

    def _ask_to_join_again(self, member: Member) -> None:
        """Asks a member that has lost records to join again, if it commits. Its commits are refused until it has
        joined, so it gets no further records of these partitions. A member that never commits continues."""
        commits = member.acknowledge is Acknowledge.COMMIT and not member.flow.never_committed
        if commits and self.coordinator.ask_to_join_again(member.id) and self.coordinator.members[member.id].is_fenced:
            for window in member.windows.values():
                window.awaits_join = window.is_fenced

    def _share_and_store(self, now: float) -> set[Partition]:
        """Distributes records that arrived or were released, and stores settled offsets. Returns the partitions that
        this step changed."""
        touched: set[Partition] = set()
        relieved: list[Partition] = []
        while True:
            # A full partition may deliver new records as soon as its acknowledgements fit, which is known only when
            # they are packed. Distribute them in the same step; otherwise the Fetches would wait for another event.
            for partition in relieved:
                self.serving.distribute(partition, now)
            self.serving.end_step(now)
            self.replaying.go_on(self.serving.distribution.touched, now)
            touched |= self.serving.distribution.touched
            relieved = self._store(now)
            if not relieved:
                return touched

    def _store(self, now: float) -> list[Partition]:
        """Checks the changed partitions, and stores their settled offsets. Returns the partitions that may deliver new
        records again."""
        touched = self.serving.distribution.touched
        for partition in touched:
            partition.check()  # before anything is stored: an inconsistent state must not reach upstream
            self.commits.changed(partition, now)
        touched.clear()
        return self.commits.send()

    def _read_further(self, touched: Iterable[Partition]) -> None:
        """Requests the next released spans to be read again, since there may be room now. Also updates which partitions
        have outstanding records, for which the engines poll faster."""
        for partition in touched:
            self.intake.changed(partition)
            if partition.released:
                self.serving.rereads.pump(partition)

    def _advance_drain(self, now: float) -> None:
        """Leaves the upstream groups, or one of them, if a drain waited only for the last commit."""
        if self.draining.drain_state is DrainState.DRAINING:
            self.draining.go_on(now)
        if self.leaving.deadlines:
            self.leaving.go_on(now)

    def _throttle_engines(self, touched: set[Partition], now: float) -> None:
        """Pauses or resumes the engines, if any condition for that has changed."""
        distribution = self.serving.distribution
        # Only holders of leases are left, and they read upstream themselves.
        idle = not distribution.members and self.leases.are_wanted(now) and not self.leases.want_records
        hungry = distribution.waiting > 0
        if touched or (idle, hungry) != self._seen:
            self._seen = idle, hungry
            self.serving.sent_batches.trim(self._memory.excess)
            kept = self.serving.sent_batches.size + distribution.collected_bytes + distribution.reservations.size
            self._backpressure.update(touched, distribution.backlogs.size, kept, hungry, idle)
            self.intake.update_polling()
