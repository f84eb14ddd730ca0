"""A router behind a virtual cluster: several clusters as one, through the addresses of the mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakSet

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener
from mesh.memory import RequestMemory
from mesh.routing.entities import Names
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.ending import Ending
from mesh.runtime.router.connection import RouterConnection
from mesh.runtime.router.leaves import Leaves, RouterLeaf
from mesh.runtime.router.requests import RouterRequests
from mesh.runtime.router.services import RouterServices
from mesh.runtime.router.status import status_of


class RouterRuntime:
    """One virtual cluster with a router behind it. Implements `mesh.listener.target.Target`."""

    def __init__(
        self,
        listener: Listener,
        leaves: Leaves,
        requests: RouterRequests,
        ending: Ending,
        node_of: Callable[[asyncio.BaseTransport], int | None],
        interceptors: Interceptors | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        """memory: for requests that are taken as a whole; None: as much as they need. interceptors: of those who come
        to it, its clients or a router in front of it."""
        self.name = listener.name
        self.listener = listener
        self.leaves = leaves
        self.interceptors = interceptors
        self.requests = requests
        self.ending = ending
        self._services = RouterServices(leaves, requests, node_of, memory)
        self._connections: WeakSet[RouterConnection] = WeakSet()

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RouterConnection:
        connection = RouterConnection(self._services, node)
        self._connections.add(connection)
        return connection

    def status(self) -> dict[str, Any]:
        return status_of(self.leaves)

    def change(
        self, added: Collection[RouterLeaf], removed: Collection[LeafNumber], names: Names, ids: NodeIds
    ) -> None:
        """Connections go on with other names, but for those that lead to a leaf which is removed: they are closed."""
        self.leaves.change(added, removed, names, ids)
        self.requests.leaves_changed()
        for connection in list(self._connections):
            if connection.client.is_open:
                connection.leaves_changed()
        for number in removed:
            self.leaves.by_number[number].watching.cancel()

    # The end

    def begin_stop(self, grace: float) -> None:
        self.ending.begin(grace)

    async def drained(self) -> None:
        await self.ending.drained()

    def drain(self) -> None:
        """Nothing is kept here that could be let go of before the connections are."""

    def close_connections(self) -> None:
        self.listener.close()

    async def closed(self) -> None:
        self._services.requests.close()
        watching = [leaf.watching for leaf in self.leaves.by_number.values()]
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
