"""What stands behind the listener of a virtual cluster, as far as the process knows it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener


class Target(Protocol):
    """A pool, say. name: of its virtual cluster. A target makes a protocol of each connection; what that does with the
    bytes of its client is its own affair, but it owns a `mesh.listener.client_transport.ClientTransport`."""

    @property
    def name(self) -> str: ...

    @property
    def listener(self) -> Listener: ...

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> asyncio.BaseProtocol:
        """A protocol for a connection that is being accepted. node: by whose address the client came, as Metadata calls
        it; None for the one that is no node's. listener: whose address that is. Where a name in TLS says which node it
        is, the transport knows it in `connection_made`."""

    def status(self) -> dict[str, Any]:
        """As JSON, for operators."""

    def begin_stop(self, grace: float) -> None:
        """Let clients end what they are at, in `grace` seconds."""

    async def drained(self) -> None:
        """Wait until they have, or their time is over."""

    def drain(self) -> None:
        """Answer what waits, and let go of the upstream clusters. No request is taken up from now on."""

    def close_connections(self) -> None:
        """What was answered is still sent."""

    async def closed(self) -> None:
        """Wait until the upstream clusters are let go of."""
