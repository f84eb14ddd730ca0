"""Services shared by the connections of a router that decides by request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.features import common_features
from mesh.routing.names import LeafNumber, RouteName
from mesh.routing.node_ids import NodeIds
from mesh.routing.served import limited
from mesh.routing.spi import Node, Router, Served
from mesh.runtime.entity_router.leaves import ADVERTISED, SERVED, RouterLeaf, any_of
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.upstream.links.chunks import Chunks
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.features import Features
from mesh.wire.trees import Tree, read_tree


@dataclass(frozen=True, slots=True)
class RouterKind:
    """The traits that all routers of a virtual cluster share. make: makes the router of a connection. serves: None for
    all that the runtime serves. reads: decodes the body of a request; `read_views` for routers that only pass records
    on."""

    make: Callable[[], Router]
    static_routes: Mapping[ApiKey, RouteName]
    serves: Served | None
    reads: Callable[[ApiKey, int, Direction, memoryview], Tree] = read_tree


class RequestRouterServices:
    """The services that the connections of a router that decides by request share.

    routes: the target of each route. Another such router has services of its own, and no connections. largest_request:
    returns the size of the largest request in bytes. node_of: returns the node that a client named in its TLS
    handshake, as clients see it. memory: a limit for requests that are read as a whole. interceptors: the interceptors
    in front of the router. name: the name of the listener. has_ended: True if this listener has ended, and not the
    whole target.
    """

    name: ListenerName = FIRST
    has_ended: bool = False

    def __init__(
        self,
        listener: Listener,
        requests: Requests,
        chunks: Chunks,
        kind: RouterKind,
        routes: Mapping[RouteName, EntityRouterRuntime | RequestRouterServices],
        ids: NodeIds,
        graceful_stop: GracefulStop,
        largest_request: Callable[[], int],
        node_of: Callable[[asyncio.BaseTransport], int | None],
        memory: RequestMemory,
        interceptors: Interceptors | None = None,
    ) -> None:
        self.interceptors: Final = interceptors
        self.listener: Final = listener
        self.requests: Final = requests
        self.chunks: Final = chunks
        self.kind: Final = kind
        self.routes: Final = routes
        self.ids: Final = ids
        self.graceful_stop: Final = graceful_stop
        self.largest_request: Final = largest_request
        self.node_of: Final = node_of
        self.memory: Final = memory
        self._leaves: Final[Mapping[LeafNumber, tuple[RouteName, RouterLeaf]]] = {
            leaf.number: (route, leaf)
            for route, behind in routes.items()
            for union in _unions_of(behind)
            for leaf in union.leaves
        }

    @property
    def unions(self) -> list[EntityRouterRuntime]:
        """The unions and clusters behind all routes."""
        return [union for behind in self.routes.values() for union in _unions_of(behind)]

    def locate(self, node: int) -> tuple[RouteName, RouterLeaf, int] | None:
        """Returns the route that leads to a node, the node's leaf, and its id in its cluster; None if no route leads to
        it. node: the id that clients see."""
        number, known = self.ids.real(node)
        found = self._leaves.get(number)
        return (*found, known) if found is not None else None

    @property
    def is_stopping(self) -> bool:
        """True if only the rest of a request that has begun is still read."""
        return self.has_ended or self.graceful_stop.has_begun

    def connection_idle(self, client: ClientTransport) -> None:
        """Notes that no request of a connection is in flight, or that it is gone."""
        if self.has_ended:
            client.close()
        self.graceful_stop.connection_idle(client)

    def router(self, client: ClientTransport) -> Router:
        """Makes the router of a client's connection."""
        return self.kind.make()

    def node(self, id: int) -> Node | None:
        """The node with this id, as clients see it; None if no route leads to it."""
        found = self.locate(id)
        return None if found is None else Node(found[0], id)

    @property
    def handled(self) -> Served:
        """The APIs that the connections handle; nodes may serve less."""
        return limited(SERVED, self.kind.serves)

    @property
    def are_known(self) -> bool:
        """True if any cluster has ever reported its nodes."""
        return any(union.leaves.are_known for union in self.unions)

    async def wait_until_known(self) -> None:
        """Returns when any cluster has reported its nodes. Raises Unreachable."""
        await any_of(union.leaves.wait_until_known() for union in self.unions)

    def any_node(self, route: RouteName) -> Node:
        """Returns a node of a route; another one each time, if there are several. A router behind the route chooses
        itself. Raises KeyError."""
        behind = self.routes[route]
        if isinstance(behind, RequestRouterServices):
            return Node(route, None)
        leaf = behind.leaves.default
        for known in leaf.nodes.in_turn():
            return Node(route, self.ids.virtual(leaf.number, known.id))
        return Node(route, None)

    def features(self) -> Features:
        """The features that all clusters have."""
        return common_features([leaf.nodes.features for _, leaf in self._leaves.values()])

    def served(self, limits: Served = ADVERTISED) -> Served:
        """The part of these APIs that the router and all its routes serve."""
        limits = limited(limits, self.kind.serves)
        for behind in self.routes.values():
            if isinstance(behind, RequestRouterServices):
                limits = behind.served(limits)
            else:
                limits = {key: (each.lowest, each.highest) for key, each in behind.leaves.served(limits).items()}
        return limits


def _unions_of(behind: EntityRouterRuntime | RequestRouterServices) -> Sequence[EntityRouterRuntime]:
    return behind.unions if isinstance(behind, RequestRouterServices) else (behind,)
