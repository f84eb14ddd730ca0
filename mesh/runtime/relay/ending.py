"""The end of a target whose clients' requests pass: connections that wait for nothing are closed at once, others when
they have their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)


class Ending:
    """The end of one target. has_begun: no more is read of what clients ask, but the rest of a request. clients: those
    of the target, where it shares the listener with others; None: all of the listener."""

    def __init__(self, listener: Listener, clients: Callable[[], Collection[Peer]] | None = None) -> None:
        self.has_begun = False
        self._listener = listener
        self._is_alone = clients is None
        self._clients = clients or listener.connections.values
        self._grace = 0.0
        self._all_gone = asyncio.Event()

    def begin(self, grace: float) -> None:
        """grace: seconds that answers have."""
        self.has_begun, self._grace = True, grace
        if self._is_alone:
            self._listener.begin_stop()
        for client in list(self._clients()):
            if not client.is_busy:
                client.close()
        self._check_gone()

    async def drained(self) -> None:
        """Returns when no client is there any more, or their time is over."""
        try:
            async with asyncio.timeout(self._grace):
                await self._all_gone.wait()
        except TimeoutError:
            waiting = len(self._clients())
            log.info("clients still wait for answers", virtual_cluster=self._listener.name, connections=waiting)

    def settled(self, client: ClientTransport) -> None:
        """A connection waits for nothing, or is gone."""
        if self.has_begun:
            client.close()
            self._check_gone()

    def _check_gone(self) -> None:
        if not self._clients():
            self._all_gone.set()
