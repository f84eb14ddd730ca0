"""Requests of holders of leases that are answered when what they did is stored upstream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer
from mesh.pool.state.leases import NotStored
from mesh.pool.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Needed:
    """What was leased in `version` of a ledger. acknowledged: the highest offset that was settled then, if some was."""

    ledger: Ledger
    version: int
    acknowledged: int | None = None

    @property
    def is_stored(self) -> bool:
        if self.acknowledged is not None:
            return self.ledger.is_stored(self.version, self.acknowledged)
        return self.ledger.are_leases_stored(self.version)


@dataclass(slots=True, eq=False)
class _Request:
    """undo: what is done if it is not stored in time."""

    ticket: Ticket
    result: object
    needed: Sequence[Needed]
    timer: Timer
    undo: Callable[[float], None]


class LeaseStore:
    """Requests that wait for an upstream commit; each is answered when it is stored, or after `commit_timeout`."""

    def __init__(self, parts: PoolParts) -> None:
        self._timeout = parts.settings.commit_timeout
        self._timers = parts.timers
        self._outbox = parts.outbox
        self.requests: set[_Request] = set()

    def answer(
        self,
        ticket: Ticket,
        result: object,
        needed: Sequence[Needed],
        now: float,
        undo: Callable[[float], None] = lambda _: None,
    ) -> None:
        """With the result at the end of a step in which all that is needed is stored, or with NotStored."""
        timer = self._timers.at(now + self._timeout, lambda then: self._time_out(request, then))
        request = _Request(ticket, result, needed, timer, undo)
        self.requests.add(request)

    def stored(self) -> None:
        """A step ends, in which something may have been stored."""
        for request in list(self.requests):
            if all(each.is_stored for each in request.needed):
                self.requests.discard(request)
                request.timer.cancel()
                self._outbox.answer(request.ticket, request.result)

    def close(self) -> None:
        """Nobody will be answered later."""
        for request in self.requests:
            request.timer.cancel()
            self._outbox.answer(request.ticket, NotStored())
        self.requests.clear()

    def _time_out(self, request: _Request, now: float) -> None:
        self.requests.discard(request)
        request.undo(now)
        self._outbox.answer(request.ticket, NotStored())
