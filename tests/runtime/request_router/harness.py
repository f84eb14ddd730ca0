"""A router that decides for each request, on real sockets, between raw clients and brokers that act as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from mesh.listener.limits import ConnectionLimiter, Descriptors
from mesh.listener.listener import Listener
from mesh.memory import RequestMemory
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, GraphRouter, Leaf, Route, ToCluster, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.node_ids import NODE_BITS, NodeIds
from mesh.routing.one_cluster import OneCluster
from mesh.routing.spi import Request as Asked
from mesh.routing.spi import Respond, RespondWithoutReply, Router, RouterContext, RouterResult, Served
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.runtime.request_router.services import RouterKind
from mesh.telemetry.metrics import Metrics
from mesh.wire.apis import ApiKey
from tests.runtime.entity_router.harness import MEMORY, LeafCluster, UnionClient, at_work
from tests.runtime.relay.harness import HOST, UNRATIONED
from tests.runtime.relay.loops import until

EU, US = RouteName("eu"), RouteName("us")
FURTHER = RouteName("further")
EU_NODE, US_NODE = (leaf << NODE_BITS for leaf in (0, 1))
"""The node 0 of each cluster, with the id that clients see."""


World = TypeVar("World", bound="RequestWorld")


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
        self.descriptors = Descriptors(1 << 20)
        self.limiter = ConnectionLimiter(UNRATIONED, self.descriptors)
        self.metrics = Metrics()
        self.memory = RequestMemory(lambda: MEMORY)
        self.listener = Listener("front", self.metrics, None, self.limiter)
        routes = tuple(Route(RouteName(name), id, ToCluster(ClusterName(name))) for id, name in enumerate(clusters))
        graph = compile_graph([GraphRouter(RouterName("own"), routes, Decides.REQUESTS)], RouterName("own"))
        ids, behind = NodeIds(leaf.number for leaf in graph.leaves), {}
        for route in routes:
            leaf = graph.at((route.name,))
            assert isinstance(leaf, Leaf)
            graceful_stop = GracefulStop(self.listener, lambda: ())
            *_, behind[route.name] = at_work(OneCluster(leaf), clusters, self.listener, ids, self.ports, graceful_stop)

        def another() -> Router:
            self.routers.append(make())
            return self.routers[-1]

        kind = RouterKind(another, static_routes, serves)
        self.runtime = self._runtime(kind, behind, ids, GracefulStop(self.listener))
        self._servers: list[asyncio.Server] = []
        self._clients: list[UnionClient] = []

    def _runtime(
        self,
        kind: RouterKind,
        behind: Mapping[RouteName, EntityRouterRuntime],
        ids: NodeIds,
        graceful_stop: GracefulStop,
    ) -> RequestRouterRuntime:
        return RequestRouterRuntime(
            self.listener, kind, behind, ids, graceful_stop, lambda: 100 << 20, lambda _: None, self.memory
        )

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
        assert not self.limiter.connections, "each that was let in has left"


class FurtherWorld(RequestWorld):
    """A router in front of the one that has these routes. front: makes it. in_front: the routers of the connections."""

    def __init__(
        self,
        clusters: Mapping[str, LeafCluster],
        make: Callable[[], Router],
        static_routes: Mapping[ApiKey, RouteName],
        serves: Served | None,
        front: Callable[[], Router],
    ) -> None:
        self._front = front
        self.in_front: list[Router] = []
        super().__init__(clusters, make, static_routes, serves)

    def _runtime(
        self,
        kind: RouterKind,
        behind: Mapping[RouteName, EntityRouterRuntime],
        ids: NodeIds,
        graceful_stop: GracefulStop,
    ) -> RequestRouterRuntime:
        def another() -> Router:
            self.in_front.append(self._front())
            return self.in_front[-1]

        further = super()._runtime(kind, behind, ids, GracefulStop(self.listener, lambda: ()))
        size = lambda: 100 << 20  # noqa: E731 - of the largest request
        outer = RouterKind(another, {}, None)
        return RequestRouterRuntime(
            self.listener, outer, {FURTHER: further}, ids, graceful_stop, size, lambda _: None, self.memory
        )


@asynccontextmanager
async def routed(
    make: Callable[[], Router] = ToRoute,
    *,
    static_routes: Mapping[ApiKey, RouteName] | None = None,
    serves: Served | None = None,
) -> AsyncIterator[RequestWorld]:
    """A world whose clusters have both been looked at."""
    async with _at_work(lambda clusters: RequestWorld(clusters, make, static_routes or {}, serves)) as made:
        yield made


@asynccontextmanager
async def routed_twice(
    front: Callable[[], Router], make: Callable[[], Router] = ToRoute, *, serves: Served | None = None
) -> AsyncIterator[FurtherWorld]:
    """The same behind a further router. make: makes the router behind. serves: its APIs."""
    async with _at_work(lambda clusters: FurtherWorld(clusters, make, {}, serves, front)) as made:
        yield made


@asynccontextmanager
async def _at_work(world: Callable[[Mapping[str, LeafCluster]], World]) -> AsyncIterator[World]:
    clusters = {name: LeafCluster(name) for name in ("eu", "us")}
    for cluster in clusters.values():
        await cluster.start()
    made = world(clusters)
    try:
        await made.listen()
        await until(lambda: all(leaf.nodes.are_known for leaf in made.runtime.leaves))
        yield made
    finally:
        await made.stop()
        for cluster in clusters.values():
            await cluster.stop()
