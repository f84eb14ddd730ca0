"""The members of each client, to guess the member of a client that has not identified itself yet."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Final

from mesh.pool.common.client import ClientIdentity
from mesh.pool.groups.former_slots import FormerSlots
from mesh.pool.state.member import Member

MOST_LOOKED_AT: Final = 64
"""The most members of one client and state that are searched for the next one to fetch."""


class _Members:
    """The members of one client, by the state of their Fetches. In each state the most likely next one is first.

    fresh: members that never fetched, oldest first. stopped: members that fetch on no connection now. fetching: members
    that fetch, first the one whose last Fetch is oldest.
    """

    __slots__ = ("fetching", "fresh", "stopped")

    def __init__(self) -> None:
        self.fresh: OrderedDict[Member, None] = OrderedDict()
        self.stopped: OrderedDict[Member, None] = OrderedDict()
        self.fetching: OrderedDict[Member, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.fresh or self.stopped or self.fetching)

    def discard(self, member: Member) -> None:
        for kind in (self.fresh, self.stopped, self.fetching):
            kind.pop(member, None)


class MemberIndex:
    """All living members of a virtual cluster, by client. Every method takes a bounded number of steps.

    former: the slots of groupless members that are gone.
    """

    def __init__(self) -> None:
        self._by_client: dict[ClientIdentity, _Members] = {}
        self._by_member: dict[Member, _Members] = {}
        self.former = FormerSlots()
        self.looked_at = 0
        """The number of members that `about_to_fetch` has looked at."""

    def add(self, member: Member) -> None:
        members = self._by_client.setdefault(member.client, _Members())
        self._by_member[member] = members
        members.fresh[member] = None

    def remove(self, member: Member) -> None:
        members = self._by_member.pop(member, None)
        if members is not None:
            if not member.id:
                self.former.note_end(member)
            members.discard(member)
            if not members:
                del self._by_client[member.client]

    def fetches(self, member: Member) -> None:
        """Notes that a member fetches."""
        members = self._by_member[member]
        if member in members.fetching:
            members.fetching.move_to_end(member)
        else:
            members.discard(member)
            members.fetching[member] = None

    def stopped(self, member: Member) -> None:
        """Notes that a member fetches on no connection any more."""
        members = self._by_member.get(member)
        if members is not None and member in members.fetching:
            del members.fetching[member]
            members.stopped[member] = None

    def about_to_fetch(self, client: ClientIdentity, hung_since: float) -> Member | None:
        """Returns a connected member of a client that does not fetch now, preferably one that never did. The last
        choice is a member that has not fetched since `hung_since`: its connection may be lost without the mesh having
        noticed."""
        members = self._by_client.get(client)
        if members is None:
            return None
        for kind in (members.fresh, members.stopped, members.fetching):
            for member in islice(kind, MOST_LOOKED_AT):
                self.looked_at += 1
                is_busy = kind is members.fetching and (member.parked or member.fetched_at > hung_since)
                if member.connections and not is_busy:
                    return member
        return None
