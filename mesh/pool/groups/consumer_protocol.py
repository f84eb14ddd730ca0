"""The consumer group protocol (KIP-848) of a pool. The coordinator decides the epochs and assignments of the members.

As with the classic protocol, members share records, not partitions. Every member is assigned all partitions of its
topics at once, and has its own epoch. The epoch rises when the member's assignment changes, and when it joins again. No
partition is ever revoked for another member, so there is no reconciliation.

One difference from a broker: if the group is not known, a member gets UNKNOWN_MEMBER_ID instead of GROUP_ID_NOT_FOUND,
which would end its client. So it comes back by itself after a restart of the mesh.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import RefreshTopics
from mesh.pool.common.ids import MemberId
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.results import ConsumerHeartbeatResult
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.groups.coordinator import GroupCoordinator
from mesh.pool.groups.membership import CONSUMER_PROTOCOL, LARGEST_METADATA, JoinRequest, Membership, Subscription
from mesh.pool.groups.patterns import MatchingTopics
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode

SESSION_TIMEOUT: Final = 45.0
"""Seconds, the default of group.consumer.session.timeout.ms of a broker. Members of this protocol name no timeout."""
HEARTBEAT_INTERVAL: Final = 3.0
"""Seconds. The default of a broker is 5. With 3 a member learns sooner of new partitions and of a restart."""
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
"""Special values of a member's epoch."""
ASSIGNORS: Final = frozenset({"uniform", "range"})
"""The assignors that a broker offers. With any of them, a member gets all partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request. `problem` must be None before it is handled. None in a field means unchanged.

    * rebalance_timeout: seconds.
    * pattern: a regular expression of RE2 that `TopicPattern` accepts; "" to remove it.
    * owned: partitions by topic, without unknown topics.
    * sees: returns whether the member may learn of a topic that it does not name.
    """

    member_id: MemberId
    epoch: int
    instance_id: str | None
    rebalance_timeout: float | None
    topics: tuple[TopicName, ...] | None
    pattern: str | None = None
    assignor: str | None
    owned: Mapping[TopicName, frozenset[int]] | None
    client: ClientIdentity
    sees: Callable[[TopicName], bool] = lambda _: True

    @property
    def is_full(self) -> bool:
        """True if all fields are set, as in the first request and in the one after a lost answer."""
        return self.rebalance_timeout is not None and self._subscribes and self.owned is not None

    @property
    def _subscribes(self) -> bool:
        return self.topics is not None or bool(self.pattern)

    @property
    def problem(self) -> str | None:
        """The error message for a malformed request, independent of its sender and group; None if there is none."""
        if self.epoch < LEAVE_FOR_A_WHILE:
            return f"invalid member epoch {self.epoch}"
        if not self.member_id and self.epoch != JOIN:
            return "the member id is empty"
        if self.instance_id == "":
            return "the instance id is empty"
        if self.epoch == LEAVE_FOR_A_WHILE and self.instance_id is None:
            return "only a static member leaves for a while"
        if self.epoch == JOIN:
            if self.rebalance_timeout is None:
                return "a member that joins needs a rebalance timeout"
            if self.owned is None or self.owned:
                return "a member that joins owns nothing, and says so"
            if not self._subscribes:
                return "a member that joins subscribes to topics"
        if sum(map(len, self.topics or ())) > LARGEST_METADATA:
            return "too many topics"
        return None


class ConsumerProtocol:
    """Handles the heartbeats of consumer protocol members. Members of all protocols are in the same
    `GroupCoordinator`."""

    def __init__(self, parts: PoolParts, coordinator: GroupCoordinator, topics: VirtualTopics) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._settings = parts.settings
        self._outbox = parts.outbox
        self._matching = MatchingTopics(topics)

    def heartbeat(
        self, ticket: Ticket, request: ConsumerHeartbeat, connection: ConnectionId, now: float
    ) -> MemberId | None:
        """Answers a heartbeat at once. Returns the member id if the sender is a member afterwards."""
        error, message = self._refuse(request)
        if error is not ErrorCode.NONE:
            self._answer(ticket, ConsumerHeartbeatResult(error, message, request.member_id))
            return None
        match request.epoch:
            case 0:
                membership = self._join(request, connection, now)
            case -1 | -2:
                self._leave(ticket, request, now)
                return None
            case _:
                membership = self._coordinator.members[request.member_id]
                self._update(membership, request)
                self._coordinator.note_heartbeat(membership, now)
        is_changed = self._assign(membership, request.sees)
        subscription = membership.subscription
        assert subscription is not None
        has_assignment = is_changed or request.is_full or request.epoch != membership.generation
        result = ConsumerHeartbeatResult(
            ErrorCode.NONE,
            None,
            membership.member_id,
            membership.generation,
            subscription.assigned if has_assignment else None,
        )
        self._answer(ticket, result)
        return membership.member_id

    def _refuse(self, request: ConsumerHeartbeat) -> tuple[ErrorCode, str | None]:
        """Makes Kafka's checks, in its order (GroupMetadataManager)."""
        if request.assignor is not None and request.assignor not in ASSIGNORS:
            return ErrorCode.UNSUPPORTED_ASSIGNOR, f"there are the assignors {', '.join(sorted(ASSIGNORS))}"
        known = self._coordinator.members.get(request.member_id)
        if known is not None and known.is_share:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
        owner = self._coordinator.static_member(request.instance_id)
        if request.epoch == JOIN:
            return self._refuse_join(request, known, owner)
        if known is None or known.subscription is None or (request.instance_id is not None and owner is None):
            return ErrorCode.UNKNOWN_MEMBER_ID, None
        if owner is not None and owner is not known:
            return ErrorCode.FENCED_INSTANCE_ID, None
        if request.epoch > 0:
            return self._refuse_epoch(request.epoch, request.owned, known), None
        return ErrorCode.NONE, None

    def _refuse_join(
        self, request: ConsumerHeartbeat, known: Membership | None, owner: Membership | None
    ) -> tuple[ErrorCode, str | None]:
        if self._coordinator.is_of_another_kind(is_share=False):
            return ErrorCode.GROUP_ID_NOT_FOUND, "the group is a share group, and may not be mixed"
        if owner is not None and owner is not known and owner.generation != LEAVE_FOR_A_WHILE:
            return ErrorCode.UNRELEASED_INSTANCE_ID, f"{request.instance_id} is in use by another member"
        if known is None and owner is None and len(self._coordinator) >= self._settings.max_members:
            return ErrorCode.GROUP_MAX_SIZE_REACHED, None
        return ErrorCode.NONE, None

    def _refuse_epoch(
        self, epoch: int, owned: Mapping[TopicName, frozenset[int]] | None, known: Membership
    ) -> ErrorCode:
        subscription = known.subscription
        assert subscription is not None
        if known.is_fenced:
            return ErrorCode.FENCED_MEMBER_EPOCH  # its records are lost: it joins again and asks for its position
        if epoch == known.generation:
            return ErrorCode.NONE
        # One epoch behind and without other partitions: the answer that raised its epoch was lost.
        is_lost_answer = epoch == subscription.previous and subscription.owns(owned)
        return ErrorCode.NONE if is_lost_answer else ErrorCode.FENCED_MEMBER_EPOCH

    def _join(self, request: ConsumerHeartbeat, connection: ConnectionId, now: float) -> Membership:
        timeout = request.rebalance_timeout
        assert timeout is not None
        join = JoinRequest(
            member_id=request.member_id or MemberId(str(uuid.uuid4())),
            instance_id=request.instance_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=(),
            session_timeout=SESSION_TIMEOUT,
            rebalance_timeout=timeout,
            must_know_id=False,
            client=request.client,
        )
        membership = self._coordinator.enter(join, now)
        known = membership.subscription
        # A member that was away continues above its last epoch.
        before = max(membership.generation, known.previous if known is not None else 0)
        membership.generation = before + 1
        topics, pattern = request.topics or (), request.pattern or ""
        membership.subscription = Subscription(membership.generation, before, topics, pattern)
        self._coordinator.admit(membership, connection, now)
        self._look_for(membership.subscription)
        return membership

    def _update(self, membership: Membership, request: ConsumerHeartbeat) -> None:
        subscription = membership.subscription
        assert subscription is not None
        if subscription.subscribe(request.topics, request.pattern):
            self._look_for(subscription)

    def _look_for(self, subscription: Subscription) -> None:
        """Refreshes the topics if some of the subscription are unknown: they may be new upstream."""
        missing = [name for name in subscription.topics if name not in self._topics]
        if subscription.pattern or any(self._topics.might_exist(name) for name in missing):
            self._outbox.put(RefreshTopics())

    def _assign(self, membership: Membership, sees: Callable[[TopicName], bool]) -> bool:
        """Assigns all current partitions of the member's topics. Returns whether the assignment has changed."""
        subscription = membership.subscription
        assert subscription is not None
        names = {name for name in subscription.topics if name in self._topics}
        if subscription.pattern:
            names.update(filter(sees, self._matching.of(subscription.pattern)))
        target = {name: len(self._topics.partitions(name)) for name in names}
        if target == subscription.assigned:
            return False
        if subscription.assigned or membership.generation != subscription.joined:
            subscription.previous = membership.generation
            membership.generation += 1
        subscription.assigned = target
        return True

    def _leave(self, ticket: Ticket, request: ConsumerHeartbeat, now: float) -> None:
        membership = self._coordinator.members[request.member_id]
        subscription = membership.subscription
        assert subscription is not None
        if request.epoch == LEAVE_FOR_A_WHILE:
            subscription.previous = max(membership.generation, subscription.previous)
            membership.generation = LEAVE_FOR_A_WHILE
        else:
            self._coordinator.left(membership, now)
        self._answer(ticket, ConsumerHeartbeatResult(ErrorCode.NONE, None, request.member_id, request.epoch))

    def _answer(self, ticket: Ticket, result: ConsumerHeartbeatResult) -> None:
        self._outbox.answer(ticket, result)
