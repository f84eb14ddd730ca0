"""What the connections of a router that decides for each request share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.features import common_features
from mesh.routing.names import LeafNumber, RouteName
from mesh.routing.node_ids import NodeIds
from mesh.routing.served import limited
from mesh.routing.spi import Node, Router, Served
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.ending import Ending
from mesh.runtime.router.leaves import RouterLeaf
from mesh.runtime.router.runtime import RouterRuntime
from mesh.upstream.links.chunks import Chunks
from mesh.wire.apis import ApiKey
from mesh.wire.features import Features


@dataclass(frozen=True, slots=True)
class RouterKind:
    """The traits that all routers of a virtual cluster share. make: one for a connection. serves: None for all that the
    runtime serves."""

    make: Callable[[], Router]
    static_routes: Mapping[ApiKey, RouteName]
    serves: Served | None


class RequestRouterServices:
    """The services that the connections of one such router share. routes: what each leads to. limit: bytes of the
    largest request. node_of: the node that a client named in its TLS handshake, as clients call it. memory: for
    requests that are taken as a whole. interceptors: in front of the router."""

    def __init__(
        self,
        listener: Listener,
        requests: Requests,
        chunks: Chunks,
        kind: RouterKind,
        routes: Mapping[RouteName, RouterRuntime],
        ids: NodeIds,
        ending: Ending,
        limit: Callable[[], int],
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
        self.ending: Final = ending
        self.limit: Final = limit
        self.node_of: Final = node_of
        self.memory: Final = memory
        self._leaves: Final[Mapping[LeafNumber, tuple[RouteName, RouterLeaf]]] = {
            leaf.number: (route, leaf) for route, behind in routes.items() for leaf in behind.leaves
        }

    def place(self, node: int) -> tuple[RouteName, RouterLeaf, int] | None:
        """The route that leads to a node which clients call so, its leaf, and what its cluster calls it. None: no
        route does."""
        number, known = self.ids.real(node)
        found = self._leaves.get(number)
        return (*found, known) if found is not None else None

    def any_node(self, route: RouteName) -> Node:
        """Another one each time, as far as there are several. Raises KeyError."""
        leaf = self.routes[route].leaves.default
        for known in leaf.nodes.in_turn():
            return Node(route, self.ids.virtual(leaf.number, known.id))
        return Node(route, None)

    def features(self) -> Features:
        """What holds in all clusters."""
        return common_features([leaf.nodes.features for _, leaf in self._leaves.values()])

    def served(self, limits: Served) -> Served:
        """What all routes serve of these, and the router."""
        limits = limited(limits, self.kind.serves)
        for behind in self.routes.values():
            limits = {key: (each.lowest, each.highest) for key, each in behind.leaves.served(limits).items()}
        return limits
