"""The group coordinator of a pool: every member is a generation of its own (clients.md 4).

JoinGroup is answered after a short delay with the member as its own leader and only member; SyncGroup gives it back the
assignment it made. Members of one pool never rebalance each other. Checks in Kafka's order: member, instance,
generation, protocol (KIP-559); static members are fenced by their successors (KIP-345).
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

PROMISE = 10.0
"""Seconds within which a client must come back with the member id it was given. They do so at once."""


class GroupCoordinator:
    """The memberships of one group. The members of its pool follow: they are admitted when they join, also once more,
    and go when they leave, expire or are fenced."""

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
        """Ids given with MEMBER_ID_REQUIRED and not used yet."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Mapping[MemberId, Membership]:
        return self._members

    @property
    def expects_members(self) -> bool:
        """Whether somebody was told to come back with a member id."""
        return bool(self._pending_members)

    def join(self, ticket: Ticket, request: JoinRequest, connection: ConnectionId, now: float) -> MemberId | None:
        """Returns the id of the member when it is one from now on; the answer follows after the join delay, at once for
        a member that knows its topics."""
        error = self._refuse_join(request)
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, JoinResult(error, request.member_id))
            return None
        if request.member_id in self._members:
            # It stays the member that it is, with what it holds: no other has to let go of anything, as none of them
            # shares a generation with it. It may have spoken the consumer protocol before.
            membership = self._members[request.member_id]
            membership.request = request
            membership.subscription = None
        elif request.instance_id is None and not request.member_id and request.must_know_id:
            # A client that gives up before it is answered would stay a member until its session ends (KIP-394).
            self._promise(ticket, request, now)
            return None
        else:
            membership = self._add(request, now)
        self._park_join(membership, ticket, now)
        # At once, though the answer comes later: its connection is known to be its own from here on.
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
        self._hear(membership, now)
        if request.assignment is not None:
            membership.assignment = request.assignment
        result = SyncResult(
            ErrorCode.NONE, membership.request.protocol_type, membership.protocol_name, membership.assignment
        )
        self._outbox.answer(ticket, result)

    def heartbeat(
        self, ticket: Ticket, member_id: MemberId, instance_id: str | None, generation: int, now: float
    ) -> bool:
        """Whether it came from a member."""
        error = self._validate_classic(member_id, instance_id, generation)
        is_member = error is ErrorCode.NONE
        if error is ErrorCode.NONE:
            membership = self._members[member_id]
            self._hear(membership, now)
            if membership.joining is not None or membership.is_fenced or membership.must_join_again(now):
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._outbox.answer(ticket, HeartbeatResult(error))
        return is_member

    def require_metadata(self, member_id: MemberId, now: float) -> None:
        """A topic that this member of the classic protocol fetches from has more partitions."""
        membership = self._members.get(member_id)
        if membership is not None and membership.subscription is None and membership.joining is None:
            membership.outdated_since = now

    def ask_to_join_again(self, member_id: MemberId) -> bool:
        """Let a member begin anew from what is committed; False when it cannot be asked: it is in no group."""
        membership = self._members.get(member_id)
        if membership is None:
            return False
        membership.is_fenced = membership.joining is None
        return True

    def lost(self, member_id: MemberId) -> ErrorCode:
        """What a commit is answered of a member that does not hold any more what it commits. One of the consumer
        protocol joins again when its next heartbeat tells it to (docs/decisions/0049)."""
        membership = self._members.get(member_id)
        if membership is None or membership.subscription is None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        membership.is_fenced = True
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, ticket: Ticket, members: tuple[tuple[str, str | None], ...], now: float) -> None:
        """(member id, instance id) of each; an empty member id with an instance id removes a static member."""
        results = tuple((member, instance, self._leave(member, instance, now)) for member, instance in members)
        self._outbox.answer(ticket, LeaveResult(results))

    def validate(self, member_id: MemberId, instance_id: str | None, generation: int) -> ErrorCode:
        """Kafka's checks of a request that names a member and its generation."""
        membership = self._members.get(member_id)
        if instance_id is not None and instance_id in self._static:
            if self._static[instance_id] != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        elif instance_id is not None or membership is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if membership is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if membership.subscription is not None:
            # A commit may have been sent before the last answer raised the epoch.
            is_current = membership.subscription.joined <= generation <= membership.generation
            return ErrorCode.NONE if is_current else ErrorCode.STALE_MEMBER_EPOCH
        if membership.generation != generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def _validate_classic(self, member_id: MemberId, instance_id: str | None, generation: int) -> ErrorCode:
        """Of a request that only members of the classic protocol send."""
        membership = self._members.get(member_id)
        if membership is not None and membership.subscription is not None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self.validate(member_id, instance_id, generation)

    # For the consumer protocol, and that of share groups

    def static_member(self, instance_id: str | None) -> Membership | None:
        return self._members.get(self._static.get(instance_id, MemberId(""))) if instance_id is not None else None

    def enter(self, request: JoinRequest, now: float) -> Membership:
        """A member of this id, the one there is or a new one; then it takes the place of a static one."""
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
        self._hear(membership, now)
        self._pool_members.admitted(membership, connection, now)

    def heard(self, membership: Membership, now: float) -> None:
        self._hear(membership, now)

    def left(self, membership: Membership, now: float) -> None:
        self._remove(membership, ErrorCode.UNKNOWN_MEMBER_ID, Cause.LEFT, now)

    def hear(self, member_id: MemberId, now: float) -> None:
        """A member showed that it lives by another request than a heartbeat."""
        membership = self._members.get(member_id)
        if membership is not None:
            self._hear(membership, now)

    def expire(self, member_id: MemberId, cause: Cause, now: float) -> None:
        membership = self._members.get(member_id)
        if membership is not None:
            self._remove(membership, ErrorCode.UNKNOWN_MEMBER_ID, cause, now)

    def close(self, error: ErrorCode) -> None:
        """Answer every JoinGroup that waits."""
        for membership in self._members.values():
            self._answer_join(membership, JoinResult(error, membership.member_id))

    def _refuse_join(self, request: JoinRequest) -> ErrorCode:
        if not self._settings.session_minimum <= request.session_timeout <= self._settings.session_maximum:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.protocol_type != CONSUMER_PROTOCOL or not request.protocols:
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

    def _promise(self, ticket: Ticket, request: JoinRequest, now: float) -> None:
        if len(self._pending_members) >= self._settings.max_members:
            self._outbox.answer(ticket, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, MemberId("")))
            return
        member_id = _new_member_id(request)
        self._pending_members[member_id] = self._timers.at(now + PROMISE, lambda _: self._break_promise(member_id))
        self._outbox.answer(ticket, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _break_promise(self, member_id: MemberId) -> None:
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
        membership.outdated_since = None
        membership.assignment = b""
        membership.joining = ticket
        membership.is_fenced = False
        if membership.session is not None:
            membership.session.cancel()  # the request may have brought another session timeout
        self._hear(membership, now)
        # A client assigns itself the partitions that it knows when it is answered. One that has just come is asking for
        # metadata meanwhile; without a delay it would join, assign itself nothing, and join again.
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

    def _hear(self, membership: Membership, now: float) -> None:
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
