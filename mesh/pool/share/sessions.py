"""Share sessions: the partitions that a share member fetches, so that its requests name only changes (KIP-932).

A member has one session with each node, as with each broker. A session belongs to the connection on which the member
fetches. Each request has the next epoch, so a lost or repeated request is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.apis.answers import ConnectionId
from mesh.pool.common.ids import MemberId
from mesh.pool.share.requests import ENDING, LAST_EPOCH, OPENING, NamedPartition, SharedRequest
from mesh.wire.errors import ErrorCode


@dataclass(slots=True, eq=False)
class ShareSession:
    """The share session of one member with one node. epoch: of the next request. last_errors: the partitions that it
    fetches, each with the error in its last answer; None before the first answer."""

    node: int
    connection: ConnectionId
    epoch: int = 1
    last_errors: dict[NamedPartition, ErrorCode | None] = field(default_factory=dict)


class ShareSessions:
    """The share sessions of one pool, by member."""

    def __init__(self) -> None:
        self._by_member: dict[MemberId, dict[int, ShareSession]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_member.values()))

    def of(self, member_id: MemberId, node: int) -> ShareSession | None:
        """Returns the session with this node; None if there is none."""
        return self._by_member.get(member_id, {}).get(node)

    def all_of(self, member_id: MemberId) -> list[ShareSession]:
        return list(self._by_member.get(member_id, {}).values())

    def open(self, member_id: MemberId, node: int, connection: ConnectionId) -> ShareSession:
        """Opens a new session, in place of any earlier one with the node."""
        session = self._by_member.setdefault(member_id, {})[node] = ShareSession(node, connection)
        return session

    def end(self, member_id: MemberId, session: ShareSession) -> None:
        sessions = self._by_member.get(member_id, {})
        if sessions.get(session.node) is session:
            del sessions[session.node]
            if not sessions:
                del self._by_member[member_id]

    def continued(
        self, member_id: MemberId, node: int, connection: ConnectionId, request: SharedRequest
    ) -> tuple[ShareSession | None, ErrorCode]:
        """Returns the session that a request continues or ends, or the error why there is none."""
        session = self.of(member_id, node)
        if request.epoch == OPENING:
            return None, ErrorCode.INVALID_SHARE_SESSION_EPOCH
        if session is None:
            return None, ErrorCode.SHARE_SESSION_NOT_FOUND
        if request.epoch == ENDING:
            return session, ErrorCode.NONE
        if request.epoch != session.epoch:
            return None, ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
        session.connection = connection
        return session, ErrorCode.NONE
