"""The connections of a virtual cluster under its limits: who is let in, who rests, who is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mesh.listener.limits import Admitted, Closed, Gate, Limits, RequestQuota
from mesh.listener.peer import Peer
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.wire.errors import ProtocolError

log = get_logger(__name__)

MOST_LOGGED: Final = 20
"""Lines a second about connections that were closed."""


class Admission:
    """Lets connections of one virtual cluster in, and closes those that go beyond a limit. now: seconds."""

    def __init__(self, virtual_cluster: str, gate: Gate, metrics: Metrics, now: Callable[[], float]) -> None:
        self._gate = gate
        self._name = virtual_cluster
        self._metrics = metrics
        self._now = now
        self._log_quota = RequestQuota(MOST_LOGGED, now())
        self._holding: set[Peer] = set()
        """Connections whose clients have not read everything."""

    @property
    def limits(self) -> Limits:
        return self._gate.limits

    def change(self, limits: Limits, connections: Iterable[Peer]) -> None:
        """Other limits from now on, also for these connections that are there; none of them is closed for it."""
        admitted = (connection.admitted for connection in connections)
        self._gate.change(limits, [each for each in admitted if each is not None])

    @property
    def unread(self) -> int:
        """Bytes that wait for clients to read them."""
        return self._gate.unread

    def enter(self, connection: Peer) -> Admitted | None:
        """None if there is no room for a connection."""
        admitted = self._gate.enter(connection.client_host, self._now())
        if isinstance(admitted, Admitted):
            return admitted
        self.closed(connection, admitted)
        return None

    def leave(self, connection: Peer) -> None:
        self._holding.discard(connection)
        if connection.admitted is not None:
            self._gate.leave(connection.admitted)

    def reach_out(self, count: int) -> None:
        """So many more connections to brokers are there for clients; less than 0 when they end."""
        self._gate.reach_out(count)

    def take(self, connection: Peer) -> float:
        """A request of a connection was answered. Returns for how many seconds it must rest."""
        return self._gate.take(connection.admitted, self._now()) if connection.admitted is not None else 0.0

    def hold(self, connection: Peer, unread: int) -> None:
        """So many bytes wait for a client to read them. If they are too many of all clients, the one that lets the most
        wait is closed."""
        if connection.admitted is None:
            return
        self._gate.hold(connection.admitted, unread)
        (self._holding.add if unread else self._holding.discard)(connection)
        while self._gate.unread > self._gate.most_unread:
            worst = max(self._holding, key=_unread)
            self.closed(worst, "too_much_unread")
            worst.abort()

    def closed(self, connection: Peer, reason: Closed) -> None:
        """A connection is being refused or closed, for a limit."""
        self._metrics.connection_closed(self._name, reason)
        self._log("a connection was closed: a limit", connection, reason, "")

    def refused(self, connection: Peer, problem: ProtocolError) -> None:
        """A client sent what no answer can be given to; its connection is being closed."""
        self._metrics.protocol_error(self._name, problem.reason)
        self._log("a connection was closed: protocol error", connection, problem.reason, str(problem))

    def _log(self, event: str, connection: Peer, reason: str, detail: str) -> None:
        # Who comes back a thousand times a second must not fill the log: all of them are in the metrics.
        if reason == "idle" or self._log_quota.take(self._now()) > 0:
            return
        fields = {"connection": connection.id, "client_host": connection.client_host, "reason": reason}
        if detail:
            fields["detail"] = detail
        log.warning(event, virtual_cluster=self._name, **fields)


def _unread(connection: Peer) -> int:
    return connection.admitted.unread if connection.admitted is not None else 0
