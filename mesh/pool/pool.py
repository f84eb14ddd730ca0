"""A pool: the members that share one group on one virtual cluster, and the state they share.

Every public method is the first half of a step: it decides, and leaves what is to be done in the outbox. `finish` is
the second half of all of them. Nothing here does IO or reads a clock.
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
from mesh.pool.leases.service import Leases
from mesh.pool.offsets.commits import Commits, Need
from mesh.pool.share.requests import ShareFetchRequest
from mesh.pool.share.service import ShareService
from mesh.pool.state.fetch import FetchParameters
from mesh.pool.state.leases import Acknowledgement, Claim, LeaseRequest, Range
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Ownership, Partition
from mesh.pool.state.slots import SLOTS, Slots, is_end, slot_of
from mesh.records.spans import CommitPosition, TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode


class Pool:
    """See the module. It is closed when it has had no member for a while, and has left its upstream groups."""

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
        self.intake = Intake(parts, topics, self.serving, self.commits, self.leases, self._backpressure, members)
        self.share = ShareService(parts, topics, self.serving, self.commits, members, self.coordinator, self.intake)
        self.stalls = Stalls(parts, self.serving.partitions, self.commits, now)
        self.locks = Locks(parts, self.serving, members, self.leases.are_wanted, now)
        self._seen = (False, False)
        """Whether nobody but holders of leases was there, and whether somebody waited for records."""
        self.draining = PoolDrain(parts, self.serving, self.commits, self.intake, self._backpressure, members)
        self.leaving = ClusterDrain(parts, self.serving, self.commits, self.intake, self._backpressure, members)
        self.is_expelled = False
        """Whether its group is not admitted any more: it ends as soon as it is drained."""
        self._used = now
        self._linger(now)  # nobody has joined yet, and perhaps nobody will

    def __repr__(self) -> str:
        return f"<Pool {self.group}: {len(self.members)} members, {len(self.members.groupless)} without group>"

    @property
    def partitions(self) -> Mapping[UpstreamPartition, Partition]:
        return self.serving.partitions

    # Members

    def join(self, ticket: Ticket, request: JoinRequest, connection: ConnectionId, now: float) -> Member | None:
        """Returns the member when the request was accepted; its answer comes later."""
        member_id = self.coordinator.join(ticket, request, connection, now)
        return self.members.by_id[member_id] if member_id is not None else None

    def consumer_heartbeat(
        self, ticket: Ticket, request: ConsumerHeartbeat, connection: ConnectionId, now: float
    ) -> Member | None:
        """Returns the member that this is, if it is one."""
        return self._heard(self.consumer_protocol.heartbeat(ticket, request, connection, now), connection)

    def share_heartbeat(
        self, ticket: Ticket, request: ShareHeartbeat, connection: ConnectionId, now: float
    ) -> Member | None:
        """Returns the member that this is, if it is one."""
        return self._heard(self.share_protocol.heartbeat(ticket, request, connection, now), connection)

    def _heard(self, member_id: MemberId | None, connection: ConnectionId) -> Member | None:
        if member_id is None:
            return None
        member = self.members.by_id[member_id]
        member.connections.add(connection)
        return member

    def disconnected(self, member: Member, connection: ConnectionId, now: float) -> None:
        """A connection of a member is gone; if it was the last one, the member has `fast_expiry` seconds to be back."""
        self.members.disconnected(member, connection, now)
        if member.share is not None:
            self.share.disconnected(member, connection, now)
        if not member.connections:
            self.timers.at(now + self._settings.fast_expiry, lambda then: self._expire_if_away(member, now, then))

    def _expire_if_away(self, member: Member, since: float, now: float) -> None:
        if member.connections or member.away_since != since:
            return  # it is back
        if member in self.members.groupless:
            self.members.forget_groupless(member, Cause.AWAY, now)
        elif self.members.by_id.get(member.id) is member:
            self.coordinator.expire(member.id, Cause.AWAY, now)

    def fire_next(self, now: float) -> bool:
        """Do one thing that is due, and what follows from it for Fetches that wait; False when nothing is."""
        if not self.timers.fire_next(now):
            return False
        if not self.is_closed:
            self.serving.catch_up(now)
        return True

    # The end

    def _linger(self, now: float) -> None:
        """Stay for a while: often somebody comes back."""
        self._empty_since = now
        self.timers.at(now + self._settings.linger, self._end_if_empty)

    def _end_if_empty(self, now: float) -> None:
        if self.is_closed or self.members or now < self._empty_since + self._settings.linger:
            return
        if self.coordinator.expects_members or self.leases.are_wanted(now):
            self.timers.at(now + self._settings.linger, self._end_if_empty)
            return
        self.end()

    def end(self) -> None:
        """Leave the upstream groups, committing what is acknowledged."""
        self._close(self.commits.unstored(self.partitions.values()))

    def answer_all(self, now: float) -> None:
        """Answer every Fetch that waits, with what it has."""
        for fetch in self.serving.fetches:
            self.serving.answer(fetch, now)

    def close_after_violation(self) -> None:
        """Its state cannot be trusted: let every request go, and every member come back to a new pool."""
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
        """Clients see new partitions when they ask for metadata the next time, which may be in minutes: those who fetch
        from these topics are made to ask (docs/decisions/0024-new-partitions-are-seen-at-once.md)."""
        for member in list(self.members):
            if member.share is not None:
                continue  # its next heartbeat assigns them
            numbers = (self._topics.number(source) for source in member.windows)
            if needs_metadata := {number[0] for number in numbers if number is not None} & topics:
                self.serving.require_metadata(member, needs_metadata, now)
                self.coordinator.require_metadata(member.id, now)

    def unused_for(self, now: float) -> float:
        """Seconds for which nobody has fetched, since it was made at the latest; 0 while a member holds something or
        has a Fetch that waits, and while there are leases."""
        if self.leases.are_wanted(now) or any(member.in_flight or member.parked for member in self.members):
            return 0.0
        return now - self._used

    # Requests

    def fetch(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: FetchParameters, now: float
    ) -> None:
        for topic in dict.fromkeys(asked.topic for asked in request.partitions):
            if topic is not None:
                self.intake.want(topic)
        member.connections.add(connection)
        self._used = now
        self.serving.fetch(member, connection, ticket, request, now)

    def share_fetch(
        self, member: Member, connection: ConnectionId, ticket: Ticket, request: ShareFetchRequest, now: float
    ) -> None:
        self._used = now
        self.share.fetch(member, connection, ticket, request, now)

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
        """(topic, partition, virtual offset) each; answered when what can be stored upstream is stored."""
        member.heard = now
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
                # Also when this one settles nothing: a commit that is repeated because it was not stored in time.
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
        """Partitions of a commit that has been repeated for `lock_timeout`, and still finds no room in the metadata.

        Some clients repeat it for ever and process nothing meanwhile, perhaps the very records without which there will
        be no room. Who is asked to join again lets go of the commit; what it has not committed of such a partition is
        taken from it, so that it is given what comes before that, and not asked again for the next hundred records.
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
                self._outbox.report("a member repeats a commit for which there is no room", fields, "warning")
                self.serving.fence(member, full, Cause.NO_ROOM, now)
                return full
        return []

    def _acknowledge(self, member: Member, source: UpstreamPartition, offset: int, now: float) -> tuple[ErrorCode, int]:
        owner = self._slots.owner(slot_of(offset)) if offset >= 0 and not is_end(offset) else member
        # A client that joined again may commit what it had before; some give up when they are refused.
        is_gone = owner is None and slot_of(offset) < SLOTS
        if owner is not member and not is_gone:
            return ErrorCode.OFFSET_OUT_OF_RANGE, 0
        window = member.windows.get(source)
        committed, end = (window.committed, window.end) if window is not None else (self._slots.start(member.slot),) * 2
        if window is not None and window.is_fenced:
            # Told also for what it was sent since: it has processed the rest before that.
            window.is_fenced = self.coordinator.ask_to_join_again(member.id)
            return self.coordinator.lost(member.id), 0
        if owner is member and window is not None and committed < offset <= end:
            return ErrorCode.NONE, self.serving.settle(member, source, offset, now)
        if owner is member and offset > end and not is_end(offset):
            return ErrorCode.OFFSET_OUT_OF_RANGE, 0
        return ErrorCode.NONE, 0

    def lease(self, ticket: Ticket, request: LeaseRequest, now: float) -> None:
        for topic in request.topics:
            self.intake.want(topic)
        self.leases.create(ticket, request, now)

    def look_at(self, ticket: Ticket, topics: tuple[TopicName, ...], wait: float, now: float) -> None:
        for topic in topics:
            self.intake.want(topic)
        self.leases.look(ticket, topics, wait, now)

    def claim(self, ticket: Ticket, claim: Claim, now: float) -> None:
        self._want(claim.ranges)
        self.leases.claim(ticket, claim, now)

    def acknowledge_lease(self, ticket: Ticket, wanted: Acknowledgement, now: float) -> None:
        """It may be the first that is asked after the upstream groups were left."""
        self._want(wanted.ranges or ())
        self.leases.acknowledge(ticket, wanted, now)

    def _want(self, ranges: Iterable[Range]) -> None:
        for each in ranges:
            if (number := self._topics.number(each.partition)) is not None:
                self.intake.want(number[0])

    # The end of a step

    def finish(self, now: float) -> None:
        """The second half of every step: `Pools.stepped` calls it when the first half, a method here or of some part,
        has returned, unless that closed the pool. So the first half need not see to the consequences of its decisions
        for waiting Fetches, for commits, and for the engines.

        Raises Violation.
        """
        touched = self._share_and_store(now)
        self._read_further(touched)
        self._advance_drain(now)
        self._throttle_engines(touched, now)
        self.leases.stored()
        self.share.answer()
        if self.members.were_emptied:
            self.members.were_emptied = False
            self._linger(now)
        # Last: the pool may be drained by what was decided just now.
        if self.is_expelled and self.draining.drain_state is DrainState.DRAINED:
            self.end()

    def _share_and_store(self, now: float) -> set[Partition]:
        """Share out the records that came or were given up, and store the offsets that are settled. Returns the
        partitions of which anything changed in this step."""
        touched: set[Partition] = set()
        relieved: list[Partition] = []
        while True:
            # A full partition may deliver new records as soon as its acknowledgements fit again, which is known only
            # when they have been packed. So this is still the same step: its Fetches would wait for another event.
            for partition in relieved:
                self.serving.distribute(partition, now)
            self.serving.end_step(now)
            touched |= self.serving.distribution.touched
            relieved = self._store(now)
            if not relieved:
                return touched

    def _store(self, now: float) -> list[Partition]:
        """Check the partitions that were touched, and store the settled offsets. Returns partitions that may deliver
        new records again."""
        touched = self.serving.distribution.touched
        for partition in touched:
            partition.check()  # before anything is stored: a state that cannot be trusted must not reach upstream
            self.commits.changed(partition, now)
        touched.clear()
        return self.commits.send()

    def _read_further(self, touched: Iterable[Partition]) -> None:
        """Ask for the next spans that have to be read again: there may be room for them by now. And note where records
        are outstanding, which hurries the engines."""
        for partition in touched:
            self.intake.changed(partition)
            if partition.released:
                self.serving.rereads.pump(partition)

    def _advance_drain(self, now: float) -> None:
        """Leave the upstream groups, or one of them, if what was stored last was all that was waited for."""
        if self.draining.drain_state is DrainState.DRAINING:
            self.draining.go_on(now)
        if self.leaving.deadlines:
            self.leaving.go_on()

    def _throttle_engines(self, touched: set[Partition], now: float) -> None:
        """Let the engines bring more, or less, if anything has changed that this depends on."""
        distribution = self.serving.distribution
        # Nobody but holders of leases is there, who read upstream themselves.
        idle = not distribution.members and self.leases.are_wanted(now) and not self.leases.want_records
        hungry = distribution.waiting > 0
        if touched or (idle, hungry) != self._seen:
            self._seen = idle, hungry
            self.serving.replays.trim(self._memory.excess)
            kept = self.serving.replays.size + distribution.collected_bytes + distribution.reservations.size
            self._backpressure.update(touched, distribution.backlogs.size, kept, hungry, idle)
            self.intake.update_urgency()
