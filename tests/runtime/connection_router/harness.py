"""A router that chooses by connection, on real sockets, between raw clients, brokers that act as a test says, and a
pool with fake engines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from prometheus_client.parser import text_string_to_metric_families

from mesh.listener.limits import ConnectionLimiter, Descriptors, Limits
from mesh.listener.listener import Listener
from mesh.listener.security import ListenerSecurity
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, Graph, GraphRouter, Leaf, Route, ToCluster, ToPool, ToRouter, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.node_ids import NODE_BITS, NodeIds
from mesh.routing.one_cluster import OneCluster
from mesh.routing.routers.topics import Topics, TopicsConfig
from mesh.routing.spi import Client as Who
from mesh.routing.spi import ConnectionRouter, Refused, Undecided
from mesh.routing.union import Union
from mesh.runtime.connection_router.connection_router_samples import samples_of
from mesh.runtime.connection_router.runtime import COORDINATOR, ConnectionRouterRuntime
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.telemetry.metrics import Metrics
from tests.routing.unions import SAME
from tests.runtime.entity_router.harness import LeafCluster, UnionClient, at_work
from tests.runtime.pool.harness import Bench
from tests.runtime.relay.harness import HOST, UNRATIONED
from tests.runtime.relay.loops import until

ALL, US, SHARED = RouteName("all"), RouteName("us"), RouteName("shared")
ALL_EU, ONLY_US, ALL_US = (leaf << NODE_BITS for leaf in (0, 1, 32))
"""The node 0 of each leaf, with the id that clients see."""
Choose = Callable[[Who], RouteName | Refused | Undecided]


def by_client_id(who: Who) -> RouteName | Refused:
    """`batch` comes to the pool, `us` to one cluster, `stranger` to none; all others to the union."""
    client_id = who.client_id or ""
    known: Mapping[str, RouteName | Refused] = {"batch": SHARED, "us": US, "stranger": Refused("not for strangers")}
    return known.get(client_id.partition("-")[0], ALL)


class Chosen(ConnectionRouter):
    """Chooses as a test says. asked: the clients for which it was asked."""

    def __init__(self, choice: Choose) -> None:
        self.choice = choice
        self.asked: list[Who] = []

    def choose(self, client: Who) -> RouteName | Refused | Undecided:
        self.asked.append(client)
        return self.choice(client)


class ChoiceWorld:
    """A world with the routes `all` to a union of eu and us, `us` to us alone, and `shared` to a pool. ports: where
    clients reach it, by the node ids that they see; None: no node; COORDINATOR: the coordinators of pools."""

    def __init__(
        self,
        clusters: Mapping[str, LeafCluster],
        choice: Choose,
        limits: Limits,
        security: ListenerSecurity | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.eu, self.us = clusters["eu"], clusters["us"]
        self.metrics = Metrics()
        self.ports: dict[int | None, int] = {}
        self.router = Chosen(choice)
        self.limiter = ConnectionLimiter(limits, Descriptors(1 << 20))
        self.listener = Listener("door", self.metrics, security, self.limiter)
        self.pools_ready = asyncio.Event()
        self.pools_ready.set()
        self.runtime = ConnectionRouterRuntime(self.listener, self.router, lambda _: None, self.pools_ready)
        self._tls = tls
        graph = _graph()
        ids = NodeIds(leaf.number for leaf in graph.leaves)
        regions = Topics(TopicsConfig.model_validate(SAME))
        only_us = graph.at((US,))
        assert isinstance(only_us, Leaf)
        for route, names in (
            (ALL, Union(graph, {RouterName("regions"): regions}, (ALL,))),
            (US, OneCluster(only_us)),
        ):
            graceful_stop = GracefulStop(self.listener, lambda route=route: self.runtime.clients_of(route))  # type: ignore[misc]
            *_, self.runtime.routes[route] = at_work(names, clusters, self.listener, ids, self.ports, graceful_stop)
        self.pool = Bench(listener=self.listener).server
        self.runtime.routes[SHARED] = self.pool
        self.metrics.add_collector(lambda: samples_of(self.runtime))
        self._servers: list[asyncio.Server] = []
        self._clients: list[UnionClient] = []

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for node in (None, COORDINATOR, ALL_EU, ALL_US, ONLY_US):
            accept = lambda node=node: self.runtime.accept(node)  # noqa: E731 - a default binds it
            server = await loop.create_server(accept, HOST, 0, ssl=self._tls)
            self.ports[node] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def client(self, node: int | None = None, tls: ssl.SSLContext | None = None) -> UnionClient:
        client = UnionClient(*await asyncio.open_connection(HOST, self.ports[node], limit=1 << 20, ssl=tls))
        self._clients.append(client)
        return client

    @property
    def refused(self) -> dict[str, float]:
        """The number of closed connections, by reason."""
        found = self.samples("kafka_mesh_protocol_errors_total")
        return {labels["reason"]: value for labels, value in found}

    def samples(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        families = text_string_to_metric_families(b"".join(self.metrics.exposition()).decode())
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return [(sample.labels, sample.value) for sample in samples]

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


def _graph() -> Graph:
    eu, us = ToCluster(ClusterName("eu")), ToCluster(ClusterName("us"))
    behind = (Route(RouteName("eu"), 0, eu), Route(RouteName("us"), 1, us))
    regions, who = RouterName("regions"), RouterName("who")
    routes = (Route(ALL, 0, ToRouter(regions)), Route(US, 1, us), Route(SHARED, 2, ToPool()))
    return compile_graph([GraphRouter(who, routes, Decides.CONNECTIONS, True), GraphRouter(regions, behind)], who)


@asynccontextmanager
async def choice(
    choose: Choose = by_client_id,
    *,
    limits: Limits = UNRATIONED,
    security: ListenerSecurity | None = None,
    tls: ssl.SSLContext | None = None,
    brokers: int = 1,
) -> AsyncIterator[ChoiceWorld]:
    """A world whose clusters have all been looked at. brokers: of each cluster; clients have an address of the first
    only."""
    clusters = {name: LeafCluster(name, brokers) for name in ("eu", "us")}
    for cluster in clusters.values():
        await cluster.start()
    made = ChoiceWorld(clusters, choose, limits, security, tls)
    try:
        await made.listen()
        await until(lambda: all(leaf.nodes.are_known for leaf in made.runtime.leaves))
        yield made
    finally:
        await made.stop()
        for cluster in clusters.values():
            await cluster.stop()
