"""A router that decides for each request behind a virtual cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.names import RouteName
from mesh.routing.node_ids import NodeIds
from mesh.routing.spi import Served
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.ending import Ending
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.request_router.connection import RequestRouterConnection
from mesh.runtime.request_router.services import RequestRouterServices, RouterKind
from mesh.runtime.router.leaves import RouterLeaf
from mesh.runtime.router.runtime import RouterRuntime
from mesh.runtime.router.status import status_of_leaf
from mesh.upstream.links.chunks import Chunks


class RequestRouterRuntime:
    """One virtual cluster with such a router behind it. Implements `mesh.listener.target.Target`. routes: what each
    leads to."""

    def __init__(
        self,
        listener: Listener,
        kind: RouterKind,
        routes: Mapping[RouteName, RouterRuntime],
        ids: NodeIds,
        ending: Ending,
        limit: Callable[[], int],
        node_of: Callable[[asyncio.BaseTransport], int | None],
        memory: RequestMemory,
        interceptors: Interceptors | None = None,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.routes = routes
        self._ending = ending
        requests = Requests(listener, LocalRequests())
        self._services = RequestRouterServices(
            listener, requests, Chunks(), kind, routes, ids, ending, limit, node_of, memory, interceptors
        )

    @property
    def leaves(self) -> list[RouterLeaf]:
        return [leaf for behind in self.routes.values() for leaf in behind.leaves]

    def served(self, limits: Served) -> Served:
        """What it and all its routes serve of these."""
        return self._services.served(limits)

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RequestRouterConnection:
        return RequestRouterConnection(self._services, node)

    def status(self) -> dict[str, Any]:
        """As a router with all leaves."""
        leaves = [status_of_leaf(behind.leaves, leaf) for behind in self.routes.values() for leaf in behind.leaves]
        return {"router": {"leaves": leaves}}

    # The end

    def begin_stop(self, grace: float) -> None:
        self._ending.begin(grace)

    async def drained(self) -> None:
        await self._ending.drained()

    def drain(self) -> None:
        """Nothing is kept here that could be let go of before the connections are."""

    def close_connections(self) -> None:
        self.listener.close()

    async def closed(self) -> None:
        await asyncio.gather(*(behind.closed() for behind in self.routes.values()))
