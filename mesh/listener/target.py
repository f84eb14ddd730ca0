"""The interface of targets for the listener of a virtual cluster."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener


class Target(Protocol):
    """A target of a virtual cluster, such as a pool. name: the name of the virtual cluster. A target makes a protocol
    for each connection. The protocol handles the client's bytes in its own way, and owns a
    `mesh.listener.client_transport.ClientTransport`."""

    @property
    def name(self) -> str: ...

    @property
    def listener(self) -> Listener: ...

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> asyncio.BaseProtocol:
        """Makes the protocol of a new connection. node: the node of the address that the client connected to, as in
        Metadata; None for a bootstrap address. listener: the listener of the address. If the node is named by SNI, the
        transport knows it in `connection_made`."""

    def status(self) -> dict[str, Any]:
        """Returns the status as JSON, for operators."""

    def begin_stop(self, grace: float) -> None:
        """Begins a stop. Clients have `grace` seconds to finish their work."""

    async def drained(self) -> None:
        """Waits until clients have finished their work, or their time is over."""

    def drain(self) -> None:
        """Answers waiting requests, and leaves the upstream clusters. No request is handled from now on."""

    def close_connections(self) -> None:
        """Closes all connections when all responses are sent."""

    async def closed(self) -> None:
        """Waits until the target has left the upstream clusters."""
