"""The target of a router that decides by connections, built from the configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from mesh.app.configured_target import ChangedConfig, LinkedTarget, Services
from mesh.app.from_config import clusters_of
from mesh.app.pool_target import PoolTarget
from mesh.app.request_router_target import request_router
from mesh.app.router_making import graph_behind
from mesh.app.unions import Unions
from mesh.config.model import PoolTargetConfig, VirtualClusterConfig
from mesh.config.pool import PoolConfig
from mesh.config.routers import RouterReference, RouterTargetConfig, ToPoolConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.choices import Choices
from mesh.routing.graph import Decides, Graph, GraphRouter, Leaf, PoolEnd
from mesh.routing.names import Path, RouteName
from mesh.routing.one_cluster import OneCluster
from mesh.routing.union import Union
from mesh.runtime.connection_router.connection_router_samples import samples_of
from mesh.runtime.connection_router.runtime import ConnectionRouterRuntime
from mesh.runtime.topologies.topology_samples import samples_of as samples_of_topologies
from mesh.telemetry.metric_definitions import MetricSample


class ConnectionRouterTarget(LinkedTarget):
    """A router that decides by connections, with everything behind its routes. Implements
    `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = Unions(configured, graph, listener, services)
        self._routers = routers = services.parts.take_routers()
        self._choices = choices = Choices(graph, routers.by_connections)
        self.target = ConnectionRouterRuntime(listener, choices, self._unions.node_of, services.clusters.topics_known)
        self._pools: dict[RouteName, PoolTarget] = {}
        self._pool_configs: dict[RouteName, PoolConfig] = {}
        for way, path in choices.paths.items():
            match choices.end(way):
                case PoolEnd():
                    self._pool_configs[way] = _pool_of(services, graph, path)
                    pool_configured = _with_pool(configured, self._pool_configs[way])
                    assert isinstance(pool_configured.target, PoolTargetConfig)
                    pool = PoolTarget(
                        pool_configured,
                        pool_configured.target.pool,
                        listener,
                        services,
                        self._unions.interceptors,
                        path,
                    )
                    self._pools[way] = pool
                    self.target.routes[way] = pool.target
                case Leaf() as leaf:
                    self._make_union(way, OneCluster(leaf), router.request_timeout)
                case GraphRouter(decides=Decides.NAMES):
                    self._make_union(way, Union(graph, routers.by_names, path), router.request_timeout)
                case _:
                    self._make_request_router(way, path, listener, router.request_timeout)

    def _make_union(self, route: RouteName, names: Union | OneCluster, timeout: float) -> None:
        clients = lambda: self.target.clients_of(route)  # noqa: E731 - it is about this route
        serves = self._routers.serves(self._choices.routers_on_path(route))
        self.target.routes[route] = self._unions.make(names, timeout, serves, clients)

    def _make_request_router(self, way: RouteName, path: Path, listener: Listener, timeout: float) -> None:
        clients = lambda: self.target.clients_of(way)  # noqa: E731 - it is about this way
        made = request_router(self._graph, path, self._routers, self._unions, listener, timeout, clients)
        self.target.routes[way] = made

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()
        yield from samples_of_topologies(*self._unions.topologies or ())

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for pool in self._pools.values():
            pool.topics_changed(cluster, topics)

    @property
    def linked(self) -> Collection[ClusterName]:
        """Returns the clusters to which it has connections, and those of its pools: it never leaves these either."""
        return self._graph.clusters.union(*map(clusters_of, self._pool_configs.values()))

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target starts again"
        self._unions.change(configured, configured.target.router.request_timeout, self._clusters.interval)
        for route, pool in self._pools.items():
            pool_configured = _with_pool(configured, self._pool_configs[route])
            pool.change(wanted._replace(configured=pool_configured), (), grace)

    def close(self) -> None:
        self._routers.close()
        self._unions.interceptors.close()


def _pool_of(services: Services, graph: Graph, path: Path) -> PoolConfig:
    """Returns the pool at the end of these routes."""
    router = graph.at(path[:-1])
    assert isinstance(router, GraphRouter), "a route starts at one"
    (configured,) = (each for each in services.routers if each.name == router.name)
    (target,) = (route.target for route in configured.routes if route.name == path[-1])
    assert isinstance(target, ToPoolConfig), "as in the graph, which was made of it"
    return target.pool


def _with_pool(configured: VirtualClusterConfig, pool: PoolConfig) -> VirtualClusterConfig:
    """Returns a virtual cluster with the same addresses and the pool of a route as target. It has no nodes: those
    belong to other routes."""
    return configured.model_copy(update={"target": PoolTargetConfig(pool=pool), "nodes": None})
