"""The members of each client, so that the one is found which a client that has told nothing yet may be."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Final

from mesh.pool.common.client import ClientIdentity
from mesh.pool.state.member import Member

MOST_LOOKED_AT: Final = 64
"""Members of one client, of each kind, among which the one is looked for that is about to fetch."""


class _Members:
    """Those of one client, by what is known of their Fetches; in each the one first that is likeliest to come next.

    fresh: never fetched, oldest first. stopped: fetch on no connection now. fetching: who fetched longest ago first.
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
    """All members of a virtual cluster that are alive, by client. Every method takes the same few steps, however many
    there are."""

    def __init__(self) -> None:
        self._by_client: dict[ClientIdentity, _Members] = {}
        self._by_member: dict[Member, _Members] = {}
        self.looked_at = 0
        """Members that `about_to_fetch` has looked at in its life."""

    def add(self, member: Member) -> None:
        members = self._by_client.setdefault(member.client, _Members())
        self._by_member[member] = members
        members.fresh[member] = None

    def remove(self, member: Member) -> None:
        members = self._by_member.pop(member, None)
        if members is not None:
            members.discard(member)
            if not members:
                del self._by_client[member.client]

    def fetches(self, member: Member) -> None:
        """One of its Fetches came."""
        members = self._by_member[member]
        if member in members.fetching:
            members.fetching.move_to_end(member)
        else:
            members.discard(member)
            members.fetching[member] = None

    def stopped(self, member: Member) -> None:
        """No connection is its any more on which it fetched."""
        members = self._by_member.get(member)
        if members is not None and member in members.fetching:
            del members.fetching[member]
            members.stopped[member] = None

    def about_to_fetch(self, client: ClientIdentity, hung_since: float) -> Member | None:
        """One that is connected and fetches nowhere; rather one that never has. At last one that has not fetched since
        `hung_since`, and so may have lost its connection without our having noticed."""
        members = self._by_client.get(client)
        if members is None:
            return None
        for kind in (members.fresh, members.stopped, members.fetching):
            for member in islice(kind, MOST_LOOKED_AT):
                self.looked_at += 1
                is_busy = kind is members.fetching and (member.parked or member.fetched > hung_since)
                if member.connections and not is_busy:
                    return member
        return None
