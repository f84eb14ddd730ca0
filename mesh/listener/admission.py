"""The connections of a virtual cluster under its limits: which are admitted, and which are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mesh.listener.limits import Admitted, Closed, ConnectionLimiter, Limits, RequestQuota
from mesh.listener.peer import Peer
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.wire.errors import ProtocolError

log = get_logger(__name__)

MOST_LOGGED: Final = 20
"""The most log entries per second about connections that were closed."""


class Admission:
    """Admits connections to one virtual cluster, and closes those that exceed a limit. now: returns the time in
    seconds."""

    def __init__(
        self, virtual_cluster: str, limiter: ConnectionLimiter, metrics: Metrics, now: Callable[[], float]
    ) -> None:
        self._limiter = limiter
        self._name = virtual_cluster
        self._metrics = metrics
        self._now = now
        self._log_quota = RequestQuota(MOST_LOGGED, now())
        self._holding: set[Peer] = set()
        """Connections whose clients have not read all responses."""

    @property
    def limits(self) -> Limits:
        return self._limiter.limits

    def change(self, limits: Limits, connections: Iterable[Peer]) -> None:
        """Applies other limits from now on, also to these open connections. Closes none of them."""
        admitted = (connection.admitted for connection in connections)
        self._limiter.change(limits, [each for each in admitted if each is not None])

    @property
    def unread(self) -> int:
        """Bytes that wait for clients to read them."""
        return self._limiter.unread

    def enter(self, connection: Peer) -> Admitted | None:
        """Admits a connection. Returns None if there is no room for it, and counts it as closed."""
        admitted = self._limiter.enter(connection.client_host, self._now())
        if isinstance(admitted, Admitted):
            return admitted
        self.closed(connection, admitted)
        return None

    def leave(self, connection: Peer) -> None:
        self._holding.discard(connection)
        if connection.admitted is not None:
            self._limiter.leave(connection.admitted)

    def count_broker_connections(self, count: int) -> None:
        """Counts `count` more connections to brokers for clients; a negative count when connections end."""
        self._limiter.count_broker_connections(count)

    def begin_handshake(self) -> bool:
        """Counts a TLS handshake. Returns False if no descriptor is left for its connection."""
        return self._limiter.begin_handshake()

    def end_handshake(self) -> None:
        self._limiter.end_handshake()

    def charge_request(self, connection: Peer) -> float:
        """Counts an answered request of a connection. Returns the seconds for which the connection is throttled."""
        return (
            self._limiter.charge_request(connection.admitted, self._now()) if connection.admitted is not None else 0.0
        )

    def count_unread(self, connection: Peer, unread: int) -> None:
        """Counts bytes that wait for a client. If all clients together have too many, closes the connection with the
        most."""
        if connection.admitted is None:
            return
        self._limiter.count_unread(connection.admitted, unread)
        (self._holding.add if unread else self._holding.discard)(connection)
        while self._limiter.unread > self._limiter.most_unread:
            worst = max(self._holding, key=_unread)
            self.closed(worst, "too_much_unread")
            worst.abort()

    def closed(self, connection: Peer, reason: Closed) -> None:
        """Counts and logs that a connection is refused or closed because of a limit."""
        self._metrics.connection_closed(self._name, reason)
        self._log("connection closed: limit", connection, reason, "")

    def refused(self, connection: Peer, problem: ProtocolError) -> None:
        """Counts and logs that a client sent something that cannot be answered. Its connection is closing."""
        self._metrics.protocol_error(self._name, problem.reason)
        self._log("connection closed: protocol error", connection, problem.reason, str(problem))

    def _log(self, event: str, connection: Peer, reason: str, detail: str) -> None:
        # A client that connects a thousand times a second must not fill the log. The metrics count all attempts.
        if reason == "idle" or self._log_quota.charge_request(self._now()) > 0:
            return
        fields = {"connection": connection.id, "client_host": connection.client_host, "reason": reason}
        if detail:
            fields["detail"] = detail
        log.warning(event, virtual_cluster=self._name, **fields)


def _unread(connection: Peer) -> int:
    return connection.admitted.unread if connection.admitted is not None else 0
