"""Answers that come in any order, and leave in the order of their requests. No IO, no clock."""

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
        """What has come of it while those before it had not."""


class AnswerQueue:
    """The answers that one client waits for. The first of them may leave in parts; of others the parts wait."""

    __slots__ = ("_tickets",)

    def __init__(self) -> None:
        self._tickets: Final[deque[Ticket]] = deque()

    def __len__(self) -> int:
        """How many have not left as a whole."""
        return len(self._tickets)

    def expect(self) -> Ticket:
        """For the next request."""
        ticket = Ticket()
        self._tickets.append(ticket)
        return ticket

    def is_next(self, ticket: Ticket) -> bool:
        """Whether the parts of this answer leave as they come."""
        return bool(self._tickets) and self._tickets[0] is ticket

    def add(self, ticket: Ticket, parts: Iterable[Buffer], *, is_last: bool) -> list[Buffer]:
        """More of an answer, with its length in front. Returns what may leave now."""
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
        """Nobody waits for them any more."""
        self._tickets.clear()
