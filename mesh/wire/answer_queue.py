"""Answers that become ready in any order, and are sent in the order of their requests. No IO, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from mesh.wire.messages import Buffer


class Ticket:
    """The place of one answer in its queue. Compared by identity."""

    __slots__ = ("has_come", "waiting")

    def __init__(self) -> None:
        self.has_come = False
        self.waiting: list[Buffer] = []
        """Parts of the answer that became ready before earlier answers were complete."""


class AnswerQueue:
    """The answers that one client waits for. The first one may be sent in parts; the parts of others wait."""

    __slots__ = ("_tickets",)

    def __init__(self) -> None:
        self._tickets: Final[deque[Ticket]] = deque()

    def __len__(self) -> int:
        """The number of answers that have not been sent completely."""
        return len(self._tickets)

    def expect(self) -> Ticket:
        """Returns a ticket for the answer to the next request."""
        ticket = Ticket()
        self._tickets.append(ticket)
        return ticket

    def is_next(self, ticket: Ticket) -> bool:
        """Returns True if parts of this answer may be sent as soon as they are ready."""
        return bool(self._tickets) and self._tickets[0] is ticket

    def add(self, ticket: Ticket, parts: Iterable[Buffer], *, is_last: bool) -> list[Buffer]:
        """Adds parts of an answer, which has its length in front. Returns what may be sent now. is_last: whether the
        answer is then complete."""
        ticket.waiting += parts
        ticket.has_come = is_last
        leaving: list[Buffer] = []
        tickets = self._tickets
        while tickets:
            first = tickets[0]
            leaving += first.waiting
            first.waiting = []
            if not first.has_come:
                break
            tickets.popleft()
        return leaving

    def clear(self) -> None:
        """Forgets all tickets."""
        self._tickets.clear()
