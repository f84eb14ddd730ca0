"""The state that all connections of one virtual cluster share, for every kind of target."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from mesh.apis.answers import ConnectionId
from mesh.listener.admission import Admission
from mesh.listener.audit_log import AuditLog
from mesh.listener.authentication import Authenticator
from mesh.listener.limits import ConnectionLimiter, Descriptors, Limits
from mesh.listener.peer import Peer
from mesh.listener.security import ListenerSecurity
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics

log = get_logger(__name__)


class Listener:
    """The limits, security and counts of one virtual cluster, with its connected clients. name: the name of the virtual
    cluster."""

    def __init__(
        self,
        name: str,
        metrics: Metrics,
        security: ListenerSecurity | None = None,
        limiter: ConnectionLimiter | None = None,
    ) -> None:
        self.name = name
        self.metrics = metrics
        self.security = security or ListenerSecurity()
        self._loop = asyncio.get_running_loop()
        self.now: Final[Callable[[], float]] = self._loop.time
        """The time in seconds, from a clock that never goes back."""
        self.admission = Admission(
            name, limiter or ConnectionLimiter(Limits(), Descriptors(1 << 20)), metrics, self._loop.time
        )
        self.authenticator = Authenticator(name, metrics)
        self.audit = AuditLog(name, metrics)
        self.connections: dict[ConnectionId, Peer] = {}
        self._ids = itertools.count(1)
        self._is_stopping = False
        metrics.watch_virtual_cluster(name)

    def next_id(self) -> ConnectionId:
        return ConnectionId(next(self._ids))

    def connected(self, connection: Peer) -> None:
        self.connections[connection.id] = connection
        if self._is_stopping:  # its handshake began before the stop
            self._loop.call_soon(connection.close)
        log.debug("client connected", virtual_cluster=self.name, connection=connection.id)

    def disconnected(self, connection: Peer) -> None:
        self.admission.leave(connection)
        self.connections.pop(connection.id, None)  # it is missing if the connection failed while it was opened

    def change_limits(self, limits: Limits) -> None:
        self.admission.change(limits, self.connections.values())

    def rules_changed(self) -> None:
        """Has the permissions of connected clients checked again, from their next request on."""
        for connection in self.connections.values():
            connection.refresh_access()

    def begin_stop(self) -> None:
        """Begins the stop: connections that are still being accepted are closed at once."""
        self._is_stopping = True

    def close(self) -> None:
        self.authenticator.close()
        for connection in list(self.connections.values()):
            connection.close()
