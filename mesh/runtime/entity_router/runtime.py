"""The runtime of a router that decides by names: several clusters as one, through the addresses of the mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakSet

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener
from mesh.memory import RequestMemory
from mesh.routing.entities import UnionNames
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.entity_router.connection import RouterConnection
from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.runtime.entity_router.moves.shown import shown
from mesh.runtime.entity_router.requests import RouterRequests
from mesh.runtime.entity_router.services import RouterServices
from mesh.runtime.entity_router.status import status_of
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget
from mesh.runtime.topologies.topology_samples import status_of_clusters


class EntityRouterRuntime(StatelessTarget):
    """The runtime of one virtual cluster with a router behind it. Implements `mesh.listener.target.Target`."""

    def __init__(
        self,
        listener: Listener,
        leaves: Leaves,
        requests: RouterRequests,
        graceful_stop: GracefulStop,
        node_of: Callable[[asyncio.BaseTransport], int | None],
        interceptors: Interceptors | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        """memory: a limit for requests that are read as a whole; None for no limit. interceptors: they see the records
        of its clients, or of a router in front of it; None if there are none."""
        self.name = listener.name
        self.listener = listener
        self.leaves = leaves
        self.interceptors = interceptors
        self.requests = requests
        self.graceful_stop = graceful_stop
        self._services = RouterServices(leaves, requests, node_of, memory)
        self._connections: WeakSet[RouterConnection] = WeakSet()
        self.moves: Moves | None = None
        self.topologies: ClusterTopologies | None = None
        """The topology descriptions of the clusters; None if none are served. Several unions of a virtual cluster share
        them."""
        self.topics_moved: Callable[[Collection[str]], None] = lambda _: None
        """Called with topics that may have moved."""

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RouterConnection:
        connection = RouterConnection(self._services, node)
        self._connections.add(connection)
        return connection

    def status(self) -> dict[str, Any]:
        status = status_of(self.leaves)
        if self.moves is not None:
            status["router"]["moves"] = [shown(mover) for mover in self.moves.movers]
        if self.topologies is not None:
            status["streams"] = status_of_clusters(self.topologies)
        return status

    def change(
        self, added: Collection[RouterLeaf], removed: Collection[LeafNumber], names: UnionNames, ids: NodeIds
    ) -> None:
        """Adds and removes leaves, and replaces the names. Connections stay, except those to a removed leaf, which are
        closed."""
        self.leaves.change(added, removed, names, ids)
        self.requests.leaves_changed()
        for connection in list(self._connections):
            if connection.client.is_open:
                connection.leaves_changed()
        for number in removed:
            self.leaves.by_number[number].watching.cancel()

    def clients(self) -> list[RouterConnection]:
        """The connections that are open."""
        return [connection for connection in self._connections if connection.client.is_open]

    # Stop

    async def closed(self) -> None:
        if self.moves is not None:
            self.moves.close()
        self._services.requests.close()
        watching = [leaf.watching for leaf in self.leaves.by_number.values()]
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
        if self.topologies is not None:
            await self.topologies.close()
