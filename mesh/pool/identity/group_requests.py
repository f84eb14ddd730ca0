"""The requests of group members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and ConsumerGroupHeartbeat.

Every public method is one step. It returns all effects in the outbox, in the order in which to carry them out.
"""

from __future__ import annotations

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.outbox import Outbox
from mesh.pool.common.results import ConsumerHeartbeatResult, HeartbeatResult, JoinResult, LeaveResult, SyncResult
from mesh.pool.groups.consumer_protocol import JOIN, LEAVE, ConsumerHeartbeat
from mesh.pool.groups.membership import JoinRequest, SyncRequest
from mesh.pool.identity.connections import Connections
from mesh.pool.pools import Pools
from mesh.pool.state.member import Member
from mesh.pool.state.slots import Slots
from mesh.wire.errors import ErrorCode


class GroupRequests:
    """Handles the group requests of one virtual cluster."""

    def __init__(self, pools: Pools, connections: Connections, slots: Slots[Member], outbox: Outbox) -> None:
        self._pools = pools
        self._connections = connections
        self._slots = slots
        self._outbox = outbox

    def join(
        self, connection: ConnectionId, ticket: Ticket, group: GroupId, request: JoinRequest, now: float
    ) -> list[Effect]:
        error = self._pools.refusal(group, now)
        unknown = group not in self._pools.by_group
        unknown = unknown or self._connections.is_anothers(connection, group, request.member_id)
        if error is ErrorCode.NONE and request.member_id and unknown:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, JoinResult(error, request.member_id))
            return self._outbox.take_all()
        if not request.member_id and not self._slots.has_room:
            self._outbox.answer(ticket, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id))
            return self._outbox.take_all()
        pool = self._pools.of_group(group, now)
        with self._pools.step(pool, now):
            member = pool.join(ticket, request, connection, now)
            if member is not None:
                self._connections.joined(connection, member, request.client.id, now)
        return self._outbox.take_all()

    def consumer_heartbeat(
        self, connection: ConnectionId, ticket: Ticket, group: GroupId, request: ConsumerHeartbeat, now: float
    ) -> list[Effect]:
        """Handles the heartbeat of a member of the consumer protocol (KIP-848), which also joins and leaves by
        heartbeats."""
        error = self._pools.refusal(group, now) if request.epoch == JOIN else ErrorCode.NONE
        unknown = request.epoch != JOIN and group not in self._pools.by_group
        unknown = unknown or self._connections.is_anothers(connection, group, request.member_id)
        if error is ErrorCode.NONE and unknown:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ConsumerHeartbeatResult(error, None, request.member_id))
        else:
            pool = self._pools.of_group(group, now)
            with self._pools.step(pool, now):
                member = pool.consumer_heartbeat(ticket, request, connection, now)
                if member is not None:
                    self._connections.joined(connection, member, request.client.id, now)
        if request.epoch == LEAVE:
            self._connections.left(connection, group, request.member_id, request.instance_id)
        return self._outbox.take_all()

    def sync(
        self, connection: ConnectionId, ticket: Ticket, group: GroupId, request: SyncRequest, now: float
    ) -> list[Effect]:
        pool = self._pools.by_group.get(group)
        if pool is None or self._connections.is_anothers(connection, group, request.member_id):
            self._outbox.answer(ticket, SyncResult(_unknown(group)))
            return self._outbox.take_all()
        with self._pools.step(pool, now):
            pool.coordinator.sync(ticket, request, now)
        return self._outbox.take_all()

    def heartbeat(
        self,
        connection: ConnectionId,
        ticket: Ticket,
        group: GroupId,
        member_id: MemberId,
        instance_id: str | None,
        generation: int,
        now: float,
    ) -> list[Effect]:
        pool = self._pools.by_group.get(group)
        if pool is None or self._connections.is_anothers(connection, group, member_id):
            self._outbox.answer(ticket, HeartbeatResult(_unknown(group)))
            return self._outbox.take_all()
        with self._pools.step(pool, now):
            if pool.coordinator.heartbeat(ticket, member_id, instance_id, generation, now):
                self._connections.note_request(connection, pool.members.by_id[member_id])
        return self._outbox.take_all()

    def leave(
        self,
        connection: ConnectionId,
        ticket: Ticket,
        group: GroupId,
        members: tuple[tuple[str, str | None], ...],
        now: float,
    ) -> list[Effect]:
        pool = self._pools.by_group.get(group)
        if pool is None:
            results = tuple((member, instance, _unknown(group)) for member, instance in members)
            self._outbox.answer(ticket, LeaveResult(results))
        else:
            with self._pools.step(pool, now):
                pool.coordinator.leave(ticket, members, now)
        for member_id, instance_id in members:
            self._connections.left(connection, group, member_id, instance_id)
        return self._outbox.take_all()


def _unknown(group: GroupId) -> ErrorCode:
    """Returns the error for a member of a group without a pool."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group else ErrorCode.INVALID_GROUP_ID
