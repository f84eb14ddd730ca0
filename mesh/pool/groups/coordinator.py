"""The group coordinator of a pool: every member has a generation of its own (clients.md 4).

JoinGroup is answered after a short delay, with the member as the leader and only member of its generation. SyncGroup
returns the assignment that the member made. Members of one pool never rebalance each other. The checks are in Kafka's
order: member, instance, generation, protocol (KIP-559). Static members are fenced by their successors (KIP-345).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.history import Cause
from mesh.pool.common.ids import MemberId
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.results import HeartbeatResult, JoinResult, LeaveResult, SyncResult
from mesh.pool.common.timers import Timer
from mesh.pool.groups.members import Members
from mesh.pool.groups.membership import CONSUMER_PROTOCOL, LARGEST_METADATA, JoinRequest, Membership, SyncRequest
from mesh.wire.errors import ErrorCode

PENDING_TIMEOUT = 10.0
"""Seconds in which a client must join with the member id that it was given. Clients do so at once."""


class GroupCoordinator:
    """The memberships of one group. Members of the pool are admitted at each join, and go when they leave, expire or
    are fenced."""

    def __init__(
        self,
        parts: PoolParts,
        pool_members: Members,
    ) -> None:
        self._settings = parts.settings
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._pool_members = pool_members
        self._members: dict[MemberId, Membership] = {}
        self._static: dict[str, MemberId] = {}
        self._pending_members: dict[MemberId, Timer] = {}
        """Member ids that were given with MEMBER_ID_REQUIRED, and with which no client has joined yet."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Mapping[MemberId, Membership]:
        return self._members

    def is_of_another_kind(self, *, is_share: bool) -> bool:
        """Returns whether share members, or all others, may not join, because the group has members of the other kind
        and must not be mixed."""
        if self._settings.share.is_mixed:
            return False
        return any(each.is_share != is_share for each in self._members.values())

    @property
    def expects_members(self) -> bool:
        """True if a client was given a member id to join with."""
        return bool(self._pending_members)

    def join(self, ticket: Ticket, request: JoinRequest, connection: ConnectionId, now: float) -> MemberId | None:
        """Handles a JoinGroup. Returns the member id if the client is a member from now on. The answer follows after
        the join delay, or at once if the member knows its topics."""
        error = self._refuse_join(request)
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, JoinResult(error, request.member_id))
            return None
        if request.member_id in self._members:
            # The client stays the same member and keeps its records. No other member must give up anything, since no
            # two share a generation. It may have used the consumer protocol before.
            membership = self._members[request.member_id]
            membership.request = request
            membership.subscription = None
        elif request.instance_id is None and not request.member_id and request.must_know_id:
            # Otherwise a client that gives up before the answer would stay a member until its session ends (KIP-394).
            self._add_pending(ticket, request, now)
            return None
        else:
            membership = self._add(request, now)
        self._park_join(membership, ticket, now)
        # Admit the member before the answer: other requests on this connection are the member's from now on.
        self._pool_members.admitted(membership, connection, now)
        return membership.member_id

    def sync(self, ticket: Ticket, request: SyncRequest, now: float) -> None:
        membership = self._members.get(request.member_id)
        error = self._validate_classic(request.member_id, request.instance_id, request.generation)
        if error is ErrorCode.NONE and membership is not None:
            own = membership.request
            if request.protocol_type not in (None, own.protocol_type) or request.protocol_name not in (
                None,
                membership.protocol_name,
            ):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif membership.joining is not None:
                error = ErrorCode.REBALANCE_IN_PROGRESS
            elif len(request.assignment or b"") > LARGEST_METADATA:
                error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE or membership is None:
            self._outbox.answer(ticket, SyncResult(error))
            return
        self._renew_session(membership, now)
        if request.assignment is not None:
            membership.assignment = request.assignment
        result = SyncResult(
            ErrorCode.NONE, membership.request.protocol_type, membership.protocol_name, membership.assignment
        )
        self._outbox.answer(ticket, result)

    def heartbeat(
        self, ticket: Ticket, member_id: MemberId, instance_id: str | None, generation: int, now: float
    ) -> bool:
        """Handles a Heartbeat. Returns whether a member sent it."""
        error = self._validate_classic(member_id, instance_id, generation)
        is_member = error is ErrorCode.NONE
        if error is ErrorCode.NONE:
            membership = self._members[member_id]
            self._renew_session(membership, now)
            if membership.joining is not None or membership.is_fenced or membership.take_rejoin(now):
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._outbox.answer(ticket, HeartbeatResult(error))
        return is_member

    def require_metadata(self, member_id: MemberId, now: float) -> None:
        """Notes that a topic which this member fetches has new partitions. Only for members of the classic protocol."""
        membership = self._members.get(member_id)
        if membership is not None and membership.subscription is None and membership.joining is None:
            membership.metadata_outdated_since = now

    def ask_to_join_again(self, member_id: MemberId) -> bool:
        """Makes a member start again from its committed offsets. Returns False if it is not in the group, so that it
        cannot be asked."""
        membership = self._members.get(member_id)
        if membership is None:
            return False
        membership.is_fenced = membership.joining is None
        return True

    def lost(self, member_id: MemberId) -> ErrorCode:
        """Returns the error for a commit of records that the member has lost. A member of the consumer protocol is told
        by its next heartbeat to join again (docs/decisions/0049)."""
        membership = self._members.get(member_id)
        if membership is None or membership.subscription is None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        membership.is_fenced = True
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, ticket: Ticket, members: tuple[tuple[str, str | None], ...], now: float) -> None:
        """Handles a LeaveGroup. members: (member id, instance id) of each. An empty member id with an instance id
        removes a static member."""
        results = tuple((member, instance, self._leave(member, instance, now)) for member, instance in members)
        self._outbox.answer(ticket, LeaveResult(results))

    def validate(self, member_id: MemberId, instance_id: str | None, generation: int) -> ErrorCode:
        """Makes Kafka's checks of a request that names a member and its generation."""
        membership = self._members.get(member_id)
        if instance_id is not None and instance_id in self._static:
            if self._static[instance_id] != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        elif instance_id is not None or membership is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if membership is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if membership.subscription is not None:
            # The client may have sent this commit before the last answer raised its epoch.
            is_current = membership.subscription.joined <= generation <= membership.generation
            return ErrorCode.NONE if is_current else ErrorCode.STALE_MEMBER_EPOCH
        if membership.generation != generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def _validate_classic(self, member_id: MemberId, instance_id: str | None, generation: int) -> ErrorCode:
        """Checks a request that only members of the classic protocol send."""
        membership = self._members.get(member_id)
        if membership is not None and membership.subscription is not None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self.validate(member_id, instance_id, generation)

    # For the consumer protocol and the protocol of share groups

    def static_member(self, instance_id: str | None) -> Membership | None:
        return self._members.get(self._static.get(instance_id, MemberId(""))) if instance_id is not None else None

    def enter(self, request: JoinRequest, now: float) -> Membership:
        """Returns the membership with the request's member id, or adds one. A new static member replaces the one with
        its instance id."""
        membership = self._members.get(request.member_id)
        if membership is None:
            return self._add(request, now)
        self._answer_join(membership, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, membership.member_id))
        membership.request = request
        membership.is_fenced = False
        return membership

    def admit(self, membership: Membership, connection: ConnectionId, now: float) -> None:
        if membership.session is not None:
            membership.session.cancel()
        self._renew_session(membership, now)
        self._pool_members.admitted(membership, connection, now)

    def note_heartbeat(self, membership: Membership, now: float) -> None:
        self._renew_session(membership, now)

    def left(self, membership: Membership, now: float) -> None:
        self._remove(membership, ErrorCode.UNKNOWN_MEMBER_ID, Cause.LEFT, now)

    def note_alive(self, member_id: MemberId, now: float) -> None:
        """Notes that a member is alive, since it sent a request other than a heartbeat."""
        membership = self._members.get(member_id)
        if membership is not None:
            self._renew_session(membership, now)

    def expire(self, member_id: MemberId, cause: Cause, now: float) -> None:
        membership = self._members.get(member_id)
        if membership is not None:
            self._remove(membership, ErrorCode.UNKNOWN_MEMBER_ID, cause, now)

    def close(self, error: ErrorCode) -> None:
        """Answers every waiting JoinGroup."""
        for membership in self._members.values():
            self._answer_join(membership, JoinResult(error, membership.member_id))

    def _refuse_join(self, request: JoinRequest) -> ErrorCode:
        if not self._settings.session_minimum <= request.session_timeout <= self._settings.session_maximum:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        is_another_kind = self.is_of_another_kind(is_share=False)
        if request.protocol_type != CONSUMER_PROTOCOL or not request.protocols or is_another_kind:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if sum(len(metadata) for _, metadata in request.protocols) > LARGEST_METADATA:
            return ErrorCode.INVALID_REQUEST
        known = request.member_id in self._members
        if known and self._members[request.member_id].is_share:
            return ErrorCode.UNKNOWN_MEMBER_ID
        replaces = request.instance_id in self._static and not request.member_id
        if not known and not replaces and len(self._members) >= self._settings.max_members:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not request.member_id or request.member_id in self._pending_members:
            return ErrorCode.NONE
        if request.instance_id is not None:
            owner = self._static.get(request.instance_id)
            if owner is not None and owner != request.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            return ErrorCode.NONE if owner is not None else ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID

    def _add_pending(self, ticket: Ticket, request: JoinRequest, now: float) -> None:
        if len(self._pending_members) >= self._settings.max_members:
            self._outbox.answer(ticket, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, MemberId("")))
            return
        member_id = _new_member_id(request)
        self._pending_members[member_id] = self._timers.at(
            now + PENDING_TIMEOUT, lambda _: self._forget_pending(member_id)
        )
        self._outbox.answer(ticket, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _forget_pending(self, member_id: MemberId) -> None:
        self._pending_members.pop(member_id, None)

    def _add(self, request: JoinRequest, now: float) -> Membership:
        member_id = request.member_id or _new_member_id(request)
        deadline = self._pending_members.pop(member_id, None)
        if deadline is not None:
            deadline.cancel()
        if request.instance_id is not None:
            older = self._members.get(self._static.get(request.instance_id, MemberId("")))
            if older is not None:
                self._remove(older, ErrorCode.FENCED_INSTANCE_ID, Cause.REPLACED, now)
            self._static[request.instance_id] = member_id
        membership = Membership(request, member_id, request.instance_id)
        self._members[member_id] = membership
        return membership

    def _park_join(self, membership: Membership, ticket: Ticket, now: float) -> None:
        self._answer_join(membership, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, membership.member_id))
        membership.generation += 1
        membership.metadata_outdated_since = None
        membership.assignment = b""
        membership.joining = ticket
        membership.is_fenced = False
        if membership.session is not None:
            membership.session.cancel()  # the request may have another session timeout
        self._renew_session(membership, now)
        # A client assigns itself the partitions that it knows when the answer comes. A new client still waits for
        # metadata. Without this delay it would join, assign itself nothing, and join again.
        delay = 0.0 if membership.knows_its_topics(now) else self._settings.join_delay
        self._timers.at(now + delay, lambda then: self._complete_join(membership, ticket, then))

    def _complete_join(self, membership: Membership, ticket: Ticket, now: float) -> None:
        if membership.joining is not ticket:
            return
        request = membership.request
        membership.topics, membership.joined = request.topics, now
        result = JoinResult(
            ErrorCode.NONE,
            membership.member_id,
            membership.generation,
            request.protocol_type,
            membership.protocol_name,
            request.instance_id,
            request.protocols[0][1],
        )
        self._answer_join(membership, result)

    def _answer_join(self, membership: Membership, result: JoinResult) -> None:
        ticket, membership.joining = membership.joining, None
        if ticket is not None:
            self._outbox.answer(ticket, result)

    def _leave(self, member_id: str, instance_id: str | None, now: float) -> ErrorCode:
        if instance_id is not None:
            owner = self._static.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if member_id and owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            member_id = owner
        deadline = self._pending_members.pop(MemberId(member_id), None)
        if deadline is not None:
            deadline.cancel()
            return ErrorCode.NONE
        membership = self._members.get(MemberId(member_id))
        if membership is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._remove(membership, ErrorCode.UNKNOWN_MEMBER_ID, Cause.LEFT, now)
        return ErrorCode.NONE

    def _remove(self, membership: Membership, error: ErrorCode, cause: Cause, now: float) -> None:
        del self._members[membership.member_id]
        instance_id = membership.instance_id
        if instance_id is not None and self._static.get(instance_id) == membership.member_id:
            del self._static[instance_id]
        if membership.session is not None:
            membership.session.cancel()
        self._answer_join(membership, JoinResult(error, membership.member_id))
        self._pool_members.gone(membership, cause, now)

    def _renew_session(self, membership: Membership, now: float) -> None:
        membership.seen = now
        if membership.session is None or membership.session.cancelled:
            self._arm(membership, now + membership.request.session_timeout)

    def _arm(self, membership: Membership, when: float) -> None:
        membership.session = self._timers.at(when, lambda now: self._session_ends(membership, now))

    def _session_ends(self, membership: Membership, now: float) -> None:
        if self._members.get(membership.member_id) is not membership:
            return
        ends = membership.seen + membership.request.session_timeout
        if ends > now:
            self._arm(membership, ends)
        else:
            self._remove(membership, ErrorCode.UNKNOWN_MEMBER_ID, Cause.EXPIRED, now)


def _new_member_id(request: JoinRequest) -> MemberId:
    return MemberId(f"{request.instance_id or request.client.id or 'consumer'}-{uuid.uuid4()}")
