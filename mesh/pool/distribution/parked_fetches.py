"""The parked Fetches of one pool, by ticket, member, partition and window."""

from __future__ import annotations

from mesh.apis.answers import Ticket
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch
from mesh.pool.state.window import Window


class ParkedFetches:
    """All parked Fetches of one pool.

    by_ticket: the common registry of all pools. Members and windows keep tickets, because a Fetch refers to them, and
    their modules must not depend on Fetches in turn.
    """

    def __init__(self, by_ticket: dict[Ticket, Fetch]) -> None:
        self._by_ticket = by_ticket

    def of(self, member: Member) -> list[Fetch]:
        """Returns the Fetches of a member, in no order."""
        return [self._by_ticket[ticket] for ticket in member.parked]

    def on(self, window: Window) -> Fetch | None:
        """Returns the Fetch that asks for records of this window."""
        return self._by_ticket[window.fetch] if window.fetch is not None else None

    def add(self, fetch: Fetch) -> None:
        self._by_ticket[fetch.ticket] = fetch
        fetch.member.parked.add(fetch.ticket)
        for partition_fetch in fetch.partition_fetches:
            partition_fetch.partition.parked[fetch] = partition_fetch
            partition_fetch.window.fetch = fetch.ticket

    def remove(self, fetch: Fetch) -> None:
        del self._by_ticket[fetch.ticket]
        fetch.member.parked.discard(fetch.ticket)
        for partition_fetch in fetch.partition_fetches:
            del partition_fetch.partition.parked[fetch]
            if partition_fetch.window.fetch == fetch.ticket:
                partition_fetch.window.fetch = None

    def forget(self, fetch: Fetch) -> None:
        """Forgets a Fetch whose pool is closed. The pool may be inconsistent, so nothing else is changed."""
        self._by_ticket.pop(fetch.ticket, None)
