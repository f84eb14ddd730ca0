"""Fetches that belong to no pool: their offsets are of an earlier run, and their group has not joined again yet."""

from __future__ import annotations

import itertools

from mesh.apis.answers import Ticket
from mesh.pool.common.outbox import Outbox
from mesh.pool.common.timers import Timers
from mesh.pool.identity.connections import Connection, Connections
from mesh.pool.state.fetch import FetchedPartition, FetchParameters, FetchResult
from mesh.pool.state.partition import Fetch, PartitionFetch
from mesh.wire.errors import ErrorCode


class UnidentifiedFetches:
    """They wait as long as they asked to, and are answered with nothing.

    parked: every Fetch that waits, of all pools too.
    """

    def __init__(self, connections: Connections, parked: dict[Ticket, Fetch], outbox: Outbox) -> None:
        self._connections = connections
        self._parked = parked
        self._outbox = outbox
        self._sequence = itertools.count(1)
        self.timers = Timers()

    def park(self, state: Connection, ticket: Ticket, request: FetchParameters, now: float) -> None:
        partition_fetches = [PartitionFetch(asked.offset, asked.maximum) for asked in request.partitions]
        stranger = Fetch(ticket, state.id, None, partition_fetches, request, next(self._sequence), now)
        self._parked[ticket] = stranger
        state.unidentified.add(stranger)
        stranger.timer = self.timers.at(stranger.deadline, lambda _: self.answer(stranger))

    def answer(self, fetch: Fetch) -> None:
        self._end(fetch)
        results = tuple(
            FetchedPartition(ErrorCode.NONE, partition_fetch.offset) for partition_fetch in fetch.partition_fetches
        )
        self._outbox.answer(fetch.ticket, FetchResult(results))

    def answer_all(self) -> None:
        for fetch in [fetch for fetch in self._parked.values() if fetch.member is None]:
            self.answer(fetch)

    def disconnected(self, state: Connection) -> None:
        for stranger in state.unidentified.copy():
            self._end(stranger)

    def _end(self, fetch: Fetch) -> None:
        del self._parked[fetch.ticket]
        self._connections.forget_stranger(fetch)
        if fetch.timer is not None:
            fetch.timer.cancel()
