"""The runtime of a router that decides for each request."""

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
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.entity_router.status import status_of_leaf
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.request_router.connection import RequestRouterConnection
from mesh.runtime.request_router.services import RequestRouterServices, RouterKind
from mesh.upstream.links.chunks import Chunks


class RequestRouterRuntime(StatelessTarget):
    """The runtime of one virtual cluster with a router that decides for each request. Implements
    `mesh.listener.target.Target`. routes: the target of each route. A router among them has no clients of its own."""

    def __init__(
        self,
        listener: Listener,
        kind: RouterKind,
        routes: Mapping[RouteName, EntityRouterRuntime | RequestRouterRuntime],
        ids: NodeIds,
        graceful_stop: GracefulStop,
        largest_request: Callable[[], int],
        node_of: Callable[[asyncio.BaseTransport], int | None],
        memory: RequestMemory,
        interceptors: Interceptors | None = None,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.routes = routes
        self.graceful_stop = graceful_stop
        requests = Requests(listener, LocalRequests())
        behind: dict[RouteName, EntityRouterRuntime | RequestRouterServices] = {
            route: each.services if isinstance(each, RequestRouterRuntime) else each for route, each in routes.items()
        }
        self.services: RequestRouterServices = RequestRouterServices(
            listener,
            requests,
            Chunks(),
            kind,
            behind,
            ids,
            graceful_stop,
            largest_request,
            node_of,
            memory,
            interceptors,
        )

    @property
    def unions(self) -> list[EntityRouterRuntime]:
        """The unions and clusters behind all routes."""
        return self.services.unions

    @property
    def leaves(self) -> list[RouterLeaf]:
        return [leaf for union in self.unions for leaf in union.leaves]

    def served(self, limits: Served) -> Served:
        """The part of these APIs that the router and all its routes serve."""
        return self.services.served(limits)

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RequestRouterConnection:
        return RequestRouterConnection(self.services, node)

    def status(self) -> dict[str, Any]:
        """The status of a router, with all its leaves."""
        leaves = [status_of_leaf(union.leaves, leaf) for union in self.unions for leaf in union.leaves]
        return {"router": {"leaves": leaves}}

    # Stop

    async def closed(self) -> None:
        await asyncio.gather(*(behind.closed() for behind in self.routes.values()))
