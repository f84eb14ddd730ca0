"""Services shared by the connections of one listener of a relay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.splicing import Pipes
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.topologies.topologies import Topologies
from mesh.upstream.links.chunks import Chunks
from mesh.wire.addresses import NodeAddresses
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.raised_versions import raised_among


@dataclass(slots=True, eq=False)
class RelayServices:
    """The services that the connections of one listener of a relay share.

    served: the versions of each API that pass. advertised: the versions that ApiVersions lists at most. Both may be
    replaced. largest_request: returns the size of the largest request in bytes. passes_authentication: True if clients
    authenticate at the cluster itself. node_of: returns the node that a client named in its TLS handshake. addresses:
    the addresses of nodes for clients. name: the name of the listener. has_ended: True if this listener has ended, and
    not the whole target. interceptors: None if the virtual cluster has none. topologies: None if no topology
    descriptions are served. pipes: the pipes by which large requests are spliced.
    """

    listener: Listener
    nodes: RelayNodes
    traffic: Traffic
    chunks: Chunks
    requests: Requests
    served: Mapping[ApiKey, tuple[int, int]]
    advertised: Mapping[ApiKey, tuple[int, int]]
    largest_request: Callable[[], int]
    passes_authentication: bool
    node_of: Callable[[asyncio.BaseTransport], int | None]
    graceful_stop: GracefulStop
    addresses: NodeAddresses
    name: ListenerName = FIRST
    has_ended: bool = False
    interceptors: Interceptors | None = None
    topologies: Topologies | None = None
    pipes: Pipes = field(default_factory=Pipes)

    @property
    def is_stopping(self) -> bool:
        """True if only the rest of a request that has begun is still read."""
        return self.has_ended or self.graceful_stop.has_begun

    def served_at(self, node: int | None, limits: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, Versions]:
        """The APIs that a node serves, as in `RelayNodes.served_at`, with the APIs that the mesh serves in its
        place."""
        served = self.nodes.served_at(node, limits)
        return served if self.topologies is None else raised_among(served, limits)

    def connection_idle(self, client: ClientTransport) -> None:
        """Notes, during a stop, that no request of a connection is in flight, or that it is gone."""
        if self.has_ended:
            client.close()
        self.graceful_stop.connection_idle(client)
