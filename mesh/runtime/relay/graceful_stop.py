"""The graceful stop of a target that passes requests on: idle connections are closed at once, others when their
requests are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from mesh.config.listeners import ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)


class StatelessTarget:
    """A target that keeps nothing but connections. Implements a part of `mesh.listener.target.Target`."""

    listener: Listener
    graceful_stop: GracefulStop

    def begin_stop(self, grace: float) -> None:
        self.graceful_stop.begin(grace)

    async def drained(self) -> None:
        await self.graceful_stop.drained()

    def drain(self) -> None:
        """Does nothing: there is nothing to release before the connections."""

    def close_connections(self) -> None:
        self.listener.close()


def close_clients(listener: Listener, name: ListenerName, grace: float) -> None:
    """Closes the connections at one of the listeners of a virtual cluster. grace: seconds in which requests may still
    be answered."""
    for client in list(listener.connections.values()):
        if client.listener_name != name:
            continue
        if client.is_busy:
            asyncio.get_running_loop().call_later(grace, client.close)
        else:
            client.close()


class GracefulStop:
    """The graceful stop of one target. has_begun: True if only the rest of a begun request is still read. clients:
    returns the clients of the target, if it shares the listener with others; None for all of the listener."""

    def __init__(self, listener: Listener, clients: Callable[[], Collection[Peer]] | None = None) -> None:
        self.has_begun = False
        self._listener = listener
        self._is_alone = clients is None
        self._clients = clients or listener.connections.values
        self._deadline = 0.0
        self._all_gone = asyncio.Event()

    def begin(self, grace: float) -> None:
        """Begins the stop: closes idle connections, and lets others wait for responses. grace: seconds for that, from
        now on."""
        self.has_begun, self._deadline = True, asyncio.get_running_loop().time() + grace
        if self._is_alone:
            self._listener.begin_stop()
        for client in list(self._clients()):
            if not client.is_busy:
                client.close()
        self._check_gone()

    async def drained(self) -> None:
        """Returns when all clients are gone, or the time is over."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._all_gone.wait()
        except TimeoutError:
            waiting = len(self._clients())
            log.info("clients still wait for responses", virtual_cluster=self._listener.name, connections=waiting)

    def connection_idle(self, client: ClientTransport) -> None:
        """Notes that no request of a connection is in flight, or that it is gone."""
        if self.has_begun:
            client.close()
            self._check_gone()

    def _check_gone(self) -> None:
        if not self._clients():
            self._all_gone.set()
