"""What the connections of one listener of a relay share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.ending import Ending
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.topologies.topologies import Topologies
from mesh.upstream.links.chunks import Chunks
from mesh.wire.addresses import NodeAddresses
from mesh.wire.apis import ApiKey


@dataclass(slots=True, eq=False)
class RelayServices:
    """What the connections of one listener of a relay share.

    served: the versions of each API that pass; advertised: those that ApiVersions lists at most. Both may be replaced.
    limit: bytes of the largest request. is_bare: clients authenticate at the cluster itself. node_of: the node that a
    client named in its TLS handshake. addresses: where clients reach the nodes. name: of the listener. has_ended: the
    listener, and not all of the target. interceptors: those of the virtual cluster, None if it has none.
    topologies: None where no topology descriptions are served.
    """

    listener: Listener
    nodes: RelayNodes
    traffic: Traffic
    chunks: Chunks
    requests: Requests
    served: Mapping[ApiKey, tuple[int, int]]
    advertised: Mapping[ApiKey, tuple[int, int]]
    limit: Callable[[], int]
    is_bare: bool
    node_of: Callable[[asyncio.BaseTransport], int | None]
    ending: Ending
    addresses: NodeAddresses
    name: ListenerName = FIRST
    has_ended: bool = False
    interceptors: Interceptors | None = None
    topologies: Topologies | None = None

    @property
    def is_stopping(self) -> bool:
        """No more is read of what clients ask, but the rest of a request that has begun."""
        return self.has_ended or self.ending.has_begun

    def settled(self, client: ClientTransport) -> None:
        """A connection waits for nothing, or is gone, while it is stopping."""
        if self.has_ended:
            client.close()
        self.ending.settled(client)
