"""The protocol of share groups (KIP-932): members join, stay alive and leave by ShareGroupHeartbeat.

As with the consumer protocol, every member is assigned all partitions of its topics, and no partition is revoked. There
are no static members and no patterns. The same group may have members of other kinds, unlike on a broker.

One more difference from a broker: if the group is not known, a member gets UNKNOWN_MEMBER_ID instead of
GROUP_ID_NOT_FOUND, which would end its client. So it comes back by itself after a restart of the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import RefreshTopics
from mesh.pool.common.ids import MemberId
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.results import ShareHeartbeatResult
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.groups.coordinator import GroupCoordinator
from mesh.pool.groups.membership import LARGEST_METADATA, SHARE_PROTOCOL, JoinRequest, Membership, Subscription
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode

SESSION_TIMEOUT: Final = 45.0
"""Seconds, the default of group.share.session.timeout.ms of a broker. Members of this protocol name no timeout."""
HEARTBEAT_INTERVAL: Final = 3.0
"""Seconds. The default of a broker is 5. With 3 a member learns sooner of new partitions and of a restart."""
JOIN, LEAVE = 0, -1
"""Special values of a member's epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request. `problem` must be None before it is handled. topics: None if unchanged."""

    member_id: MemberId
    epoch: int
    topics: tuple[TopicName, ...] | None
    client: ClientIdentity

    @property
    def problem(self) -> str | None:
        """The error message for a malformed request, independent of its sender and group; None if there is none."""
        if self.epoch < LEAVE:
            return f"invalid member epoch {self.epoch}"
        if not self.member_id:
            return "the member id is empty"
        if self.epoch == JOIN and not self.topics:
            return "a member that joins subscribes to topics"
        if sum(map(len, self.topics or ())) > LARGEST_METADATA:
            return "too many topics"
        return None


class ShareProtocol:
    """Handles the heartbeats of share members. Members of all protocols are in the same `GroupCoordinator`."""

    def __init__(self, parts: PoolParts, coordinator: GroupCoordinator, topics: VirtualTopics) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._settings = parts.settings
        self._outbox = parts.outbox

    def heartbeat(
        self, ticket: Ticket, request: ShareHeartbeat, connection: ConnectionId, now: float
    ) -> MemberId | None:
        """Answers a heartbeat at once. Returns the member id if the sender is a member afterwards."""
        error = self._refuse(request)
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ShareHeartbeatResult(error, request.member_id))
            return None
        match request.epoch:
            case 0:
                membership = self._join(request, connection, now)
            case -1:
                self._coordinator.left(self._coordinator.members[request.member_id], now)
                self._outbox.answer(ticket, ShareHeartbeatResult(ErrorCode.NONE, request.member_id, LEAVE))
                return None
            case _:
                membership = self._coordinator.members[request.member_id]
                self._coordinator.note_heartbeat(membership, now)
        subscription = membership.subscription
        assert subscription is not None
        if request.topics is not None and subscription.subscribe(request.topics, None):
            self._look_for(subscription)
        is_changed = self._assign(membership, subscription)
        has_assignment = is_changed or request.topics is not None or request.epoch != membership.generation
        self._outbox.answer(
            ticket,
            ShareHeartbeatResult(
                ErrorCode.NONE,
                membership.member_id,
                membership.generation,
                subscription.assigned if has_assignment else None,
            ),
        )
        return membership.member_id

    def _refuse(self, request: ShareHeartbeat) -> ErrorCode:
        known = self._coordinator.members.get(request.member_id)
        if known is not None and not known.is_share:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if request.epoch == JOIN and self._coordinator.is_of_another_kind(is_share=True):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if request.epoch == JOIN:
            is_full = known is None and len(self._coordinator) >= self._settings.max_members
            return ErrorCode.GROUP_MAX_SIZE_REACHED if is_full else ErrorCode.NONE
        if known is None or known.subscription is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # One epoch behind: the answer that raised its epoch was lost.
        is_known = request.epoch in (LEAVE, known.generation, known.subscription.previous)
        return ErrorCode.NONE if is_known else ErrorCode.FENCED_MEMBER_EPOCH

    def _join(self, request: ShareHeartbeat, connection: ConnectionId, now: float) -> Membership:
        join = JoinRequest(
            member_id=request.member_id,
            instance_id=None,
            protocol_type=SHARE_PROTOCOL,
            protocols=(),
            session_timeout=SESSION_TIMEOUT,
            rebalance_timeout=0.0,
            must_know_id=False,
            client=request.client,
        )
        membership = self._coordinator.enter(join, now)
        before = membership.generation
        membership.generation = before + 1
        membership.subscription = Subscription(membership.generation, before, request.topics or ())
        self._coordinator.admit(membership, connection, now)
        self._look_for(membership.subscription)
        return membership

    def _look_for(self, subscription: Subscription) -> None:
        """Refreshes the topics if some of the subscription are unknown: they may be new upstream."""
        missing = [name for name in subscription.topics if name not in self._topics]
        if any(self._topics.might_exist(name) for name in missing):
            self._outbox.put(RefreshTopics())

    def _assign(self, membership: Membership, subscription: Subscription) -> bool:
        """Assigns all current partitions of the member's topics. Returns whether the assignment has changed."""
        names = [name for name in subscription.topics if name in self._topics]
        target = {name: len(self._topics.partitions(name)) for name in names}
        if target == subscription.assigned:
            return False
        if subscription.assigned or membership.generation != subscription.joined:
            subscription.previous = membership.generation
            membership.generation += 1
        subscription.assigned = target
        return True
