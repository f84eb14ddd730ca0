"""A router that decides for each request on real sockets, between raw clients and brokers that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from mesh.listener.limits import Descriptors, Gate
from mesh.listener.listener import Listener
from mesh.memory import RequestMemory
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, Leaf, Route, ToCluster, compile_graph
from mesh.routing.graph import Router as Configured
from mesh.routing.names import RouteName, RouterName
from mesh.routing.node_ids import NODE_BITS, NodeIds
from mesh.routing.one_cluster import OneCluster
from mesh.routing.spi import Request as Asked
from mesh.routing.spi import Respond, RespondWithoutReply, Router, RouterContext, RouterResult, Served
from mesh.runtime.relay.ending import Ending
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.runtime.request_router.services import RouterKind
from mesh.telemetry.metrics import Metrics
from mesh.wire.apis import ApiKey
from tests.runtime.relay.harness import HOST, UNRATIONED
from tests.runtime.relay.loops import until
from tests.runtime.router.harness import MEMORY, LeafCluster, UnionClient, at_work

EU, US = RouteName("eu"), RouteName("us")
EU_NODE, US_NODE = (leaf << NODE_BITS for leaf in (0, 1))
"""The node 0 of each cluster, as clients call it."""


class ToRoute(Router):
    """Sends everything to any node of one route. asked: the requests of its connection."""

    def __init__(self, route: RouteName = EU) -> None:
        self.route = route
        self.asked: list[Asked] = []
        self.is_closed = False

    async def on_request(self, request: Asked, context: RouterContext) -> RouterResult:
        self.asked.append(request)
        answer = await context.send(context.any_node(self.route), request)
        return Respond(answer) if request.wants_answer else RespondWithoutReply()

    def close(self) -> None:
        self.is_closed = True


class RequestWorld:
    """The routes `eu` and `us`, each to a cluster. made: the routers of the connections, in their order. ports: where
    clients reach it, by the node ids that they see; None: no node."""

    def __init__(
        self,
        clusters: Mapping[str, LeafCluster],
        make: Callable[[], Router],
        static_routes: Mapping[ApiKey, RouteName],
        serves: Served | None,
    ) -> None:
        self.eu, self.us = clusters["eu"], clusters["us"]
        self.ports: dict[int | None, int] = {}
        self.routers: list[Router] = []
        self.gate = Gate(UNRATIONED, Descriptors(1 << 20))
        self.metrics = Metrics()
        self.memory = RequestMemory(lambda: MEMORY)
        self.listener = Listener("front", self.metrics, None, self.gate)
        routes = tuple(Route(RouteName(name), id, ToCluster(ClusterName(name))) for id, name in enumerate(clusters))
        graph = compile_graph([Configured(RouterName("own"), routes, Decides.REQUESTS)], RouterName("own"))
        ids, behind = NodeIds(leaf.number for leaf in graph.leaves), {}
        for route in routes:
            leaf = graph.at((route.name,))
            assert isinstance(leaf, Leaf)
            ending = Ending(self.listener, lambda: ())
            *_, behind[route.name] = at_work(OneCluster(leaf), clusters, self.listener, ids, self.ports, ending)

        def another() -> Router:
            self.routers.append(make())
            return self.routers[-1]

        kind = RouterKind(another, static_routes, serves)
        self.runtime = RequestRouterRuntime(
            self.listener, kind, behind, ids, Ending(self.listener), lambda: 100 << 20, lambda _: None, self.memory
        )
        self._servers: list[asyncio.Server] = []
        self._clients: list[UnionClient] = []

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for node in (None, EU_NODE, US_NODE):
            server = await loop.create_server(lambda node=node: self.runtime.accept(node), HOST, 0)  # type: ignore[misc]
            self.ports[node] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def client(self, node: int | None = None) -> UnionClient:
        client = UnionClient(*await asyncio.open_connection(HOST, self.ports[node], limit=4 << 20))
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        for client in self._clients:
            client.abort()
        for server in self._servers:
            server.close()
        self.runtime.drain()
        self.runtime.close_connections()
        await until(lambda: not self.listener.connections)
        await self.runtime.closed()
        assert not self.gate.connections, "each that was let in has left"


@asynccontextmanager
async def routed(
    make: Callable[[], Router] = ToRoute,
    *,
    static_routes: Mapping[ApiKey, RouteName] | None = None,
    serves: Served | None = None,
) -> AsyncIterator[RequestWorld]:
    """Both clusters have been looked at."""
    clusters = {name: LeafCluster(name) for name in ("eu", "us")}
    for cluster in clusters.values():
        await cluster.start()
    made = RequestWorld(clusters, make, static_routes or {}, serves)
    try:
        await made.listen()
        await until(lambda: all(leaf.nodes.are_known for leaf in made.runtime.leaves))
        yield made
    finally:
        await made.stop()
        for cluster in clusters.values():
            await cluster.stop()
