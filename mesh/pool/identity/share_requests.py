"""The requests of share members (KIP-932): ShareGroupHeartbeat, ShareFetch and ShareAcknowledge. Each names its member.

Every public method is one step. It returns all effects in the outbox, in the order in which to carry them out.
"""

from __future__ import annotations

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import Effect, KeepShareGroup
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.outbox import Outbox
from mesh.pool.common.results import ShareHeartbeatResult
from mesh.pool.common.settings import ShareSettings
from mesh.pool.groups.share_protocol import JOIN, ShareHeartbeat
from mesh.pool.identity.connections import Connections
from mesh.pool.pool import Pool
from mesh.pool.pools import Pools
from mesh.pool.share.requests import (
    OPENING,
    ShareAcknowledgeResult,
    SharedFetch,
    SharedRequest,
    ShareFetchResult,
)
from mesh.pool.state.member import Member
from mesh.pool.state.slots import Slots
from mesh.wire.errors import ErrorCode


class ShareRequests:
    """Handles the requests of share members of one virtual cluster."""

    def __init__(
        self,
        pools: Pools,
        connections: Connections,
        slots: Slots[Member],
        settings: ShareSettings,
        outbox: Outbox,
    ) -> None:
        self._pools = pools
        self._connections = connections
        self._slots = slots
        self._settings = settings
        self._outbox = outbox

    def heartbeat(
        self, connection: ConnectionId, ticket: Ticket, group: GroupId, request: ShareHeartbeat, now: float
    ) -> list[Effect]:
        """Handles the heartbeat of a share member, which also joins and leaves by heartbeats."""
        error = self._pools.refusal(group, now) if request.epoch == JOIN else ErrorCode.NONE
        if error is ErrorCode.NONE and request.epoch == JOIN and self._pools.kept.is_loading:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # a stored start of the group may not be read yet
        if error is ErrorCode.NONE and request.epoch == JOIN and not self._slots.has_room:
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
        unknown = request.epoch != JOIN and group not in self._pools.by_group
        unknown = unknown or self._connections.is_anothers(connection, group, request.member_id)
        if error is ErrorCode.NONE and unknown:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ShareHeartbeatResult(error, request.member_id))
            return self._outbox.take_all()
        pool = self._pools.of_group(group, now)
        pool.share_settings.value = self._pools.share_settings(group)
        with self._pools.step(pool, now):
            member = pool.share_heartbeat(ticket, request, connection, now)
            if member is not None:
                if not self._pools.kept.knows(group):
                    self._outbox.put(KeepShareGroup(group))
                self._connections.joined(connection, member, request.client.id, now)
        return self._outbox.take_all()

    def fetch(
        self,
        connection: ConnectionId,
        ticket: Ticket,
        group: GroupId,
        member_id: MemberId,
        client: ClientIdentity,
        request: SharedFetch,
        now: float,
    ) -> list[Effect]:
        if request.epoch == OPENING:
            return self._open(connection, ticket, group, member_id, client, request, now)
        pool, member, error = self._find(connection, group, member_id)
        if pool is None or member is None:
            self._outbox.answer(ticket, ShareFetchResult(error))
            return self._outbox.take_all()
        with self._pools.step(pool, now):
            self._connections.note_request(connection, member)
            pool.share_fetch(member, self._connections[connection].node, connection, ticket, request, now)
        return self._outbox.take_all()

    def acknowledge(
        self,
        connection: ConnectionId,
        ticket: Ticket,
        group: GroupId,
        member_id: MemberId,
        request: SharedRequest,
        now: float,
    ) -> list[Effect]:
        pool, member, error = self._find(connection, group, member_id)
        if request.epoch == OPENING:
            error = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        if pool is None or member is None or error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ShareAcknowledgeResult(error))
            return self._outbox.take_all()
        with self._pools.step(pool, now):
            self._connections.note_request(connection, member)
            pool.share.acknowledge(member, self._connections[connection].node, connection, ticket, request, now)
        return self._outbox.take_all()

    def _open(
        self,
        connection: ConnectionId,
        ticket: Ticket,
        group: GroupId,
        member_id: MemberId,
        client: ClientIdentity,
        request: SharedFetch,
        now: float,
    ) -> list[Effect]:
        error = self._pools.refusal(group, now)
        known = self._pools.by_group[group].members.by_id.get(member_id) if group in self._pools.by_group else None
        is_others = known is not None and (
            known.share is None or self._connections.is_anothers(connection, group, member_id)
        )
        if error is ErrorCode.NONE and (request.acknowledgements or is_others):
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, ShareFetchResult(error))
            return self._outbox.take_all()
        pool = self._pools.of_group(group, now)
        node = self._connections[connection].node
        with self._pools.step(pool, now):
            if self._has_room(pool, member_id, node, known):
                member = pool.share.open(member_id, client, node, connection, now)
                self._connections.note_request(connection, member)
                pool.share_fetch(member, node, connection, ticket, request, now)
            else:
                pool.share.refuse_session(connection, ticket, request.wait, now)
        return self._outbox.take_all()

    def _has_room(self, pool: Pool, member_id: MemberId, node: int, known: Member | None) -> bool:
        if pool.share.sessions.of(member_id, node) is not None:
            return True
        sessions = sum(len(each.share.sessions) for each in self._pools.by_group.values())
        return sessions < self._settings.most_sessions and (known is not None or self._slots.has_room)

    def _find(
        self, connection: ConnectionId, group: GroupId, member_id: MemberId
    ) -> tuple[Pool | None, Member | None, ErrorCode]:
        """Returns the share member with an id. Any other member has no session, which is the error."""
        pool = self._pools.by_group.get(group)
        member = pool.members.by_id.get(member_id) if pool is not None else None
        is_its_own = member is not None and member.share is not None
        if not is_its_own or self._connections.is_anothers(connection, group, member_id):
            return None, None, ErrorCode.SHARE_SESSION_NOT_FOUND
        return pool, member, ErrorCode.NONE
