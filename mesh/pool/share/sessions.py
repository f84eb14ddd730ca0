"""Share sessions: which partitions a share member fetches, so that its requests name changes only (KIP-932).

A session belongs to a member and to the connection that it fetches on. Each request has the next epoch: one that was
lost, or sent twice, is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.apis.answers import ConnectionId
from mesh.pool.common.ids import MemberId
from mesh.pool.share.requests import ENDING, LAST_EPOCH, OPENING, NamedPartition, SharedRequest
from mesh.wire.errors import ErrorCode


@dataclass(slots=True, eq=False)
class ShareSession:
    """epoch: of the next request. told: the partitions that it fetches, and with which error each was answered last;
    None for one that was not answered yet."""

    connection: ConnectionId
    epoch: int = 1
    told: dict[NamedPartition, ErrorCode | None] = field(default_factory=dict)


class ShareSessions:
    """Those of one pool, by member."""

    def __init__(self) -> None:
        self._by_member: dict[MemberId, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._by_member)

    def of(self, member_id: MemberId) -> ShareSession | None:
        return self._by_member.get(member_id)

    def open(self, member_id: MemberId, connection: ConnectionId) -> ShareSession:
        """A new one, in place of the one there was."""
        session = self._by_member[member_id] = ShareSession(connection)
        return session

    def end(self, member_id: MemberId) -> None:
        self._by_member.pop(member_id, None)

    def continued(
        self, member_id: MemberId, connection: ConnectionId, request: SharedRequest
    ) -> tuple[ShareSession | None, ErrorCode]:
        """The session that a request continues or ends, or why there is none."""
        session = self._by_member.get(member_id)
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
