"""The members of one pool: how they join, whether they are away or idle, and how their records are released when they
go.

Members of the group join and leave through the coordinator. Groupless members fetch without joining.
"""

from __future__ import annotations

from collections.abc import Iterator

from mesh.apis.answers import ConnectionId
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.history import Cause
from mesh.pool.common.ids import MemberId
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.settings import Acknowledge
from mesh.pool.fetch.serving import Serving
from mesh.pool.groups.member_index import MemberIndex
from mesh.pool.groups.membership import Membership
from mesh.pool.state.acquired import ShareHoldings
from mesh.pool.state.flow import Flow
from mesh.pool.state.member import Member
from mesh.pool.state.partition import NO_LIMIT
from mesh.pool.state.slots import Slots


class Members:
    """The living members of a pool. were_emptied: whether the last member has gone since this was set to False."""

    def __init__(
        self,
        parts: PoolParts,
        acknowledge: Acknowledge,
        slots: Slots[Member],
        clients: MemberIndex,
        serving: Serving,
    ) -> None:
        self._group = parts.group
        self._settings = parts.settings
        self.acknowledge = acknowledge
        """The way in which new members acknowledge."""
        self._slots = slots
        self._clients = clients
        self._serving = serving
        self._timers = parts.timers
        self._outbox = parts.outbox
        self.were_emptied = False
        self.by_id: dict[MemberId, Member] = {}
        """The members of the group."""
        self.groupless: set[Member] = set()

    def __iter__(self) -> Iterator[Member]:
        yield from self.by_id.values()
        yield from self.groupless

    def __len__(self) -> int:
        return len(self.by_id) + len(self.groupless)

    # Arrival of members

    def add_groupless(self, client: ClientIdentity, now: float) -> Member:
        """Adds a consumer that fetches without having joined the group, or is about to. It is forgotten if it never
        fetches."""
        member = self._add(MemberId(""), client, now)
        self.groupless.add(member)
        self._timers.at(now + self._settings.lock_timeout, lambda then: self._forget_if_idle(member, then))
        return member

    def admitted(self, membership: Membership, connection: ConnectionId, now: float) -> None:
        """Adds a member to the group, or updates it when it joins again."""
        request = membership.request
        member = self.by_id.get(membership.member_id)
        if member is None:
            if membership.is_share:
                member = self.add_share(membership.member_id, request.client, now)
            else:
                member = self._add(membership.member_id, request.client, now)
                self.by_id[member.id] = member
            fields = {"member": member.id, "client_id": member.client.id, "slot": member.slot}
            self._outbox.report("member joined", fields)
        member.instance_id = request.instance_id
        member.rebalance_timeout = request.rebalance_timeout
        for window in member.windows.values():
            # Otherwise a client that keeps its old position would be asked to join again forever.
            window.joined_again()
        member.connections.add(connection)

    def add_share(self, id: MemberId, client: ClientIdentity, now: float) -> Member:
        """Adds a share member. It may fetch without having joined the group. Such a member names itself in each
        request, has no cap, and settles by upstream offsets."""
        self._serving.serve_share_members()
        flow = Flow(NO_LIMIT, NO_LIMIT)
        member = Member(self._group, id, self._slots, client, Acknowledge.COMMIT, flow, now, ShareHoldings())
        self.by_id[id] = member
        return member

    def _add(self, id: MemberId, client: ClientIdentity, now: float) -> Member:
        flow = Flow(self._settings.initial_window, self._settings.maximum_window)
        member = Member(self._group, id, self._slots, client, self.acknowledge, flow, now)
        self._clients.add(member)
        return member

    # End of members

    def disconnected(self, member: Member, connection: ConnectionId, now: float) -> None:
        """Handles the end of a member's connection. Cancels its Fetches first: no records must go to a dead
        connection."""
        distribution = self._serving.distribution
        for fetch in distribution.parked.of(member):
            if fetch.connection == connection:
                self._serving.cancel(fetch, now)
        member.connections.discard(connection)
        if not member.connections:
            member.away_since = now
            self._serving.disconnected(member, now)

    def gone(self, membership: Membership, cause: Cause, now: float) -> None:
        """Removes a member from the group. A member with a share session stays until the session ends."""
        member = self.by_id[membership.member_id]
        if member.share is None or not member.share.has_session:
            self.forget(member, cause, now)

    def forget(self, member: Member, cause: Cause, now: float) -> None:
        """Forgets a member that has left the group, or was never in it."""
        del self.by_id[member.id]
        self._drop(member, cause, now)

    def forget_all(self) -> None:
        """Forgets all members of a closed pool."""
        for member in self:
            self._clients.remove(member)
        self.by_id.clear()
        self.groupless.clear()

    def forget_groupless(self, member: Member, cause: Cause, now: float) -> None:
        """Forgets a member without a group."""
        self.groupless.discard(member)
        self._drop(member, cause, now)

    def _forget_if_idle(self, member: Member, now: float) -> None:
        if member in self.groupless and not member.has_fetched:
            self.forget_groupless(member, Cause.NEVER_FETCHED, now)

    def _drop(self, member: Member, cause: Cause, now: float) -> None:
        fields = {"member": member.name, "in_flight": member.in_flight, "reason": cause.value}
        self._outbox.report("member gone", fields)
        self._serving.drop(member, cause, now)
        self._clients.remove(member)
        if not self:
            self.were_emptied = True
