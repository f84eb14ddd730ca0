"""Requests of lease holders that are answered when their effect is stored upstream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer
from mesh.pool.state.leases import NotStored
from mesh.pool.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class NeededLedger:
    """A version of a ledger that must be stored, with its leases. acknowledged: the highest offset that was settled by
    the request; None if it settled none."""

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
    """A request that waits until its leases are stored. undo: called if they are not stored in time."""

    ticket: Ticket
    result: object
    needed: Sequence[NeededLedger]
    timer: Timer
    undo: Callable[[float], None]


class LeaseStore:
    """Requests that wait for an upstream commit. Each is answered when it is stored, or after `commit_timeout`."""

    def __init__(self, parts: PoolParts) -> None:
        self._timeout = parts.settings.commit_timeout
        self._timers = parts.timers
        self._outbox = parts.outbox
        self.requests: set[_Request] = set()

    def answer(
        self,
        ticket: Ticket,
        result: object,
        needed: Sequence[NeededLedger],
        now: float,
        undo: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Answers with `result` at the end of the step in which everything needed is stored, or with NotStored after
        `commit_timeout`. undo: called in the latter case."""
        timer = self._timers.at(now + self._timeout, lambda then: self._time_out(request, then))
        request = _Request(ticket, result, needed, timer, undo)
        self.requests.add(request)

    def stored(self) -> None:
        """Answers the requests that are stored. Called at the end of a step."""
        for request in list(self.requests):
            if all(each.is_stored for each in request.needed):
                self.requests.discard(request)
                request.timer.cancel()
                self._outbox.answer(request.ticket, request.result)

    def close(self) -> None:
        """Answers all waiting requests with NotStored."""
        for request in self.requests:
            request.timer.cancel()
            self._outbox.answer(request.ticket, NotStored())
        self.requests.clear()

    def _time_out(self, request: _Request, now: float) -> None:
        self.requests.discard(request)
        request.undo(now)
        self._outbox.answer(request.ticket, NotStored())
