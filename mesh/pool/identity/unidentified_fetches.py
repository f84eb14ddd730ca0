"""Fetches that belong to no pool: their offsets are of an earlier run, and their group has not joined again yet."""

from __future__ import annotations

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import Outbox
from mesh.pool.common.timers import Timers
from mesh.pool.identity.connections import Connection, Connections, UnidentifiedFetch
from mesh.pool.state.fetch import FetchedPartition, FetchParameters, FetchResult
from mesh.wire.errors import ErrorCode


class UnidentifiedFetches:
    """The unidentified Fetches of a virtual cluster. They wait for their max_wait, and are answered without records."""

    def __init__(self, connections: Connections, outbox: Outbox) -> None:
        self._connections = connections
        self._outbox = outbox
        self._parked: dict[Ticket, UnidentifiedFetch] = {}
        self.timers = Timers()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, state: Connection, ticket: Ticket, request: FetchParameters, now: float) -> None:
        timer = self.timers.at(now + request.wait, lambda _: self.answer(ticket))
        fetch = UnidentifiedFetch(ticket, state.id, tuple(asked.offset for asked in request.partitions), timer)
        self._parked[ticket] = fetch
        state.unidentified.add(fetch)

    def answer(self, ticket: Ticket) -> None:
        """Answers a Fetch without records. Does nothing if there is no such Fetch."""
        fetch = self._parked.get(ticket)
        if fetch is not None:
            self._end(fetch)
            results = tuple(FetchedPartition(ErrorCode.NONE, offset) for offset in fetch.offsets)
            self._outbox.answer(ticket, FetchResult(results))

    def answer_all(self) -> None:
        for ticket in list(self._parked):
            self.answer(ticket)

    def disconnected(self, state: Connection) -> None:
        for fetch in state.unidentified.copy():
            self._end(fetch)

    def _end(self, fetch: UnidentifiedFetch) -> None:
        del self._parked[fetch.ticket]
        self._connections.forget_unidentified(fetch)
        fetch.timer.cancel()
