"""A router that chooses by connection behind a virtual cluster, and all that its routes lead to."""

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
from mesh.runtime.choice.connection import ChoosingConnection
from mesh.runtime.choice.services import Led
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.runtime.router.leaves import ADVERTISED, RouterLeaf
from mesh.runtime.router.runtime import RouterRuntime
from mesh.runtime.router.status import status_of_leaf
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.relayed_apis import RELAYED_APIS

log = get_logger(__name__)

Behind: TypeAlias = RouterRuntime | RequestRouterRuntime | PoolRuntime
"""What a route leads to."""


class ChoiceRuntime:
    """One virtual cluster with a router that chooses by connection. Implements `mesh.listener.target.Target`, and
    `mesh.runtime.choice.services.ChoiceServices`. routes: of the router, each with what it leads to. pools_ready: when
    clients may be led to a pool; None: at once."""

    def __init__(
        self,
        listener: Listener,
        router: ConnectionRouter,
        node_of: Callable[[asyncio.BaseTransport], int | None],
        pools_ready: asyncio.Event | None = None,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.routes: dict[RouteName, Behind] = {}
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
    def unions(self) -> list[RouterRuntime]:
        """Also those, and the clusters, behind routers that answer each request."""
        found: list[RouterRuntime] = []
        for each in self.routes.values():
            match each:
                case RouterRuntime():
                    found.append(each)
                case RequestRouterRuntime():
                    found += each.routes.values()
                case PoolRuntime():
                    pass
                case _:
                    assert_never(each)
        return found

    def clients_of(self, route: RouteName) -> Collection[Peer]:
        """Those that were led there."""
        return [each for each in self.listener.connections.values() if self._route_of.get(each) == route]

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> ChoosingConnection:
        return ChoosingConnection(self, node)

    def status(self) -> dict[str, Any]:
        """As a router with all leaves, and the pools of all pools that it leads to."""
        leaves = [status_of_leaf(union.leaves, leaf) for union in self.unions for leaf in union.leaves]
        routes = [{"route": route, "connections": len(self.clients_of(route))} for route in self.routes]
        status: dict[str, Any] = {"router": {"leaves": leaves, "routes": routes}}
        if self.pools:
            status["pools"] = [each for pool in self.pools for each in pool.status()["pools"]]
        return status

    # Of connections that are not led anywhere yet

    def node_of(self, transport: asyncio.BaseTransport) -> int | None:
        return self._node_of(transport)

    def choose(self, client: Client, node: int | None) -> Led | Undecided | str:
        try:
            chosen = self._router.choose(client)
        except Exception:
            log.exception("a connection was closed: its router has a bug", virtual_cluster=self.name)
            return "its router has a bug"
        match chosen:
            case Undecided():
                return chosen
            case Refused(reason):
                return reason
            case _ if chosen in self.routes:
                return self._led(chosen, node)
            case _:
                allowed = ", ".join(self.routes)
                log.error(
                    "a router has chosen a route that it has not",
                    virtual_cluster=self.name,
                    route=str(chosen),
                    allowed=allowed,
                )
                return f"its router has chosen route {chosen!r} and not one of {allowed}"

    def _led(self, route: RouteName, node: int | None) -> Led | str:
        behind = self.routes[route]
        if node is None or not isinstance(behind, PoolRuntime):
            ready = self._pools_ready if isinstance(behind, PoolRuntime) else None
            return Led(route, lambda: behind.accept(node), ready)
        return f"route {route} leads to a pool, which has no nodes, and the client came to node {node}"

    def led(self, route: RouteName, client: ClientTransport) -> None:
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
            if isinstance(behind, RouterRuntime):
                limits = {key: (each.lowest, each.highest) for key, each in behind.leaves.served(limits).items()}
            elif isinstance(behind, RequestRouterRuntime):
                limits = dict(behind.served(limits))
        served = {key: Versions(*each, RELAYED_APIS[key].first_flexible) for key, each in limits.items()}
        return dict(sorted({**served, **self.requests.served}.items()))

    # The end

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
