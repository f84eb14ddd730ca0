"""The runtime of a router that chooses by connection, with the targets of all its routes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias, assert_never
from weakref import WeakKeyDictionary

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.listener.requests import Requests
from mesh.pool.apis.table import TABLE
from mesh.routing.names import RouteName
from mesh.routing.spi import Client, ConnectionRouter, Refused, Undecided
from mesh.runtime.connection_router.connection import ChoosingConnection
from mesh.runtime.connection_router.services import ChosenRoute
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.entity_router.leaves import ADVERTISED, RouterLeaf
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.entity_router.status import status_of_leaf
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.runtime.topologies.topology_samples import status_of_clusters
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.relayed_apis import RELAYED_APIS

log = get_logger(__name__)

COORDINATOR: Final = -1
"""The address of the coordinators of all pools behind the router, in place of the id of a node."""
RouteTarget: TypeAlias = EntityRouterRuntime | RequestRouterRuntime | PoolRuntime
"""The target of a route."""


class ConnectionRouterRuntime:
    """The runtime of one virtual cluster with a router that chooses by connection. Implements
    `mesh.listener.target.Target` and `mesh.runtime.connection_router.services.ConnectionRouterServices`.

    routes: the target of each route. pools_ready: set when clients may be led to a pool; None: at once.
    """

    def __init__(
        self,
        listener: Listener,
        router: ConnectionRouter,
        node_of: Callable[[asyncio.BaseTransport], int | None],
        pools_ready: asyncio.Event | None = None,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.routes: dict[RouteName, RouteTarget] = {}
        self.requests: Final = Requests(listener, LocalRequests())
        self.is_stopping = False
        self._router = router
        self._node_of = node_of
        self._pools_ready = pools_ready
        self._route_of: WeakKeyDictionary[Peer, RouteName] = WeakKeyDictionary()

    @property
    def pools(self) -> list[PoolRuntime]:
        return [each for each in self.routes.values() if isinstance(each, PoolRuntime)]

    @property
    def leaves(self) -> list[RouterLeaf]:
        return [leaf for union in self.unions for leaf in union.leaves]

    @property
    def unions(self) -> list[EntityRouterRuntime]:
        """The unions behind the routes, with the unions and clusters behind routers that answer each request."""
        found: list[EntityRouterRuntime] = []
        for each in self.routes.values():
            match each:
                case EntityRouterRuntime():
                    found.append(each)
                case RequestRouterRuntime():
                    found += each.unions
                case PoolRuntime():
                    pass
                case _:
                    assert_never(each)
        return found

    @property
    def topologies(self) -> ClusterTopologies | None:
        """The topologies of the streams groups; None where no topology descriptions are served."""
        return next((union.topologies for union in self.unions if union.topologies is not None), None)

    def clients_of(self, route: RouteName) -> Collection[Peer]:
        """The clients whose connections were led to a route."""
        return [each for each in self.listener.connections.values() if self._route_of.get(each) == route]

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> ChoosingConnection:
        return ChoosingConnection(self, node)

    def status(self) -> dict[str, Any]:
        """Returns the status of the router: its leaves and routes, its streams groups, and the pools of all routes."""
        leaves = [status_of_leaf(union.leaves, leaf) for union in self.unions for leaf in union.leaves]
        routes = [{"route": route, "connections": len(self.clients_of(route))} for route in self.routes]
        status: dict[str, Any] = {"router": {"leaves": leaves, "routes": routes}}
        if (topologies := self.topologies) is not None:
            status["streams"] = status_of_clusters(topologies)
        if self.pools:
            status["pools"] = [each for pool in self.pools for each in pool.status()["pools"]]
        return status

    # Called by connections whose route is not chosen yet

    def node_of(self, transport: asyncio.BaseTransport) -> int | None:
        return self._node_of(transport)

    def choose(self, client: Client, node: int | None) -> ChosenRoute | Undecided | str:
        try:
            chosen = self._router.choose(client)
        except Exception:
            log.exception("connection closed: bug in router", virtual_cluster=self.name)
            return "its router has a bug"
        match chosen:
            case Undecided():
                return chosen
            case Refused(reason):
                return reason
            case _ if chosen in self.routes:
                return self._chosen_route(chosen, node)
            case _:
                allowed = ", ".join(self.routes)
                log.error(
                    "router chose an unknown route",
                    virtual_cluster=self.name,
                    route=str(chosen),
                    allowed=allowed,
                )
                return f"its router has chosen route {chosen!r} and not one of {allowed}"

    def _chosen_route(self, route: RouteName, node: int | None) -> ChosenRoute | str:
        behind = self.routes[route]
        if not isinstance(behind, PoolRuntime):
            known = None if node == COORDINATOR else node
            return ChosenRoute(route, lambda: behind.accept(known))
        if node is None or node == COORDINATOR:
            nodes = behind.endpoint.nodes
            own = nodes.broker if node is None else nodes.coordinator
            return ChosenRoute(route, lambda: behind.accept(own), self._pools_ready)
        return f"route {route} leads to a pool, which has no nodes, and the client came to node {node}"

    def route_chosen(self, route: RouteName, client: ClientTransport) -> None:
        self._route_of[client] = route
        if self.is_stopping and not isinstance(self.routes[route], PoolRuntime):
            asyncio.get_running_loop().call_soon(client.close)

    def served(self) -> Mapping[ApiKey, Versions]:
        limits = dict(ADVERTISED)
        if self.pools:
            for key in list(limits):
                if key not in TABLE:
                    del limits[key]
                    continue
                versions, (lowest, highest) = TABLE[key].versions, limits[key]
                limits[key] = max(versions.lowest, lowest), min(versions.highest, highest)
        for behind in self.routes.values():
            if isinstance(behind, EntityRouterRuntime):
                limits = {key: (each.lowest, each.highest) for key, each in behind.leaves.served(limits).items()}
            elif isinstance(behind, RequestRouterRuntime):
                limits = dict(behind.served(limits))
        served = {key: Versions(*each, RELAYED_APIS[key].first_flexible) for key, each in limits.items()}
        return dict(sorted({**served, **self.requests.served}.items()))

    # Stop

    def begin_stop(self, grace: float) -> None:
        self.is_stopping = True
        for client in list(self.listener.connections.values()):
            if client not in self._route_of:
                client.close()
        for behind in self.routes.values():
            behind.begin_stop(grace)

    async def drained(self) -> None:
        await asyncio.gather(*(behind.drained() for behind in self.routes.values()))

    def drain(self) -> None:
        self.listener.begin_stop()
        for behind in self.routes.values():
            behind.drain()

    def close_connections(self) -> None:
        for behind in self.routes.values():
            behind.close_connections()
        self.listener.close()

    async def closed(self) -> None:
        await asyncio.gather(*(behind.closed() for behind in self.routes.values()))
