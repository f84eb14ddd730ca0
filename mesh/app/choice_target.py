"""A router that chooses by connection, as it is configured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from mesh.app.configured_target import LinkedTarget, Services, Wanted
from mesh.app.from_config import clusters_of
from mesh.app.pool_target import PoolTarget
from mesh.app.request_target import request_router
from mesh.app.router_making import Routers, graph_behind
from mesh.app.unions import Unions
from mesh.config.model import PoolTargetConfig, VirtualClusterConfig
from mesh.config.pool import PoolConfig
from mesh.config.routers import RouterReference, RouterTargetConfig, ToPoolConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.choices import Choices
from mesh.routing.graph import Decides, Graph, Leaf, PoolEnd, Router
from mesh.routing.names import Path, RouteName
from mesh.routing.one_cluster import OneCluster
from mesh.routing.union import Union
from mesh.runtime.choice.choice_samples import samples_of
from mesh.runtime.choice.runtime import ChoiceRuntime
from mesh.telemetry.metric_definitions import Sample


class ChoiceTarget(LinkedTarget):
    """A router that chooses by connection, with all that its routes lead to. Implements
    `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = Unions(configured, graph, listener, services)
        self._routers = routers = Routers(graph, services.routers, configured.name)
        self._choices = choices = Choices(graph, routers.by_connections)
        self.target = ChoiceRuntime(listener, choices, self._unions.node_of, services.clusters.are_looked_at)
        self._pools: dict[RouteName, PoolTarget] = {}
        self._pool_configs: dict[RouteName, PoolConfig] = {}
        for way, path in choices.ways.items():
            match choices.end(way):
                case PoolEnd():
                    self._pool_configs[way] = _pool_of(services, graph, path)
                    behind = _with_pool(configured, self._pool_configs[way])
                    assert isinstance(behind.target, PoolTargetConfig)
                    pool = PoolTarget(behind, behind.target.pool, listener, services, self._unions.interceptors, path)
                    self._pools[way] = pool
                    self.target.routes[way] = pool.target
                case Leaf() as leaf:
                    self._make_union(way, OneCluster(leaf), router.request_timeout)
                case Router(decides=Decides.NAMES):
                    self._make_union(way, Union(graph, routers.by_names, path), router.request_timeout)
                case _:
                    self._make_request_router(way, path, listener, router.request_timeout)

    def _make_union(self, route: RouteName, names: Union | OneCluster, timeout: float) -> None:
        clients = lambda: self.target.clients_of(route)  # noqa: E731 - it is about this route
        serves = self._routers.serves(self._choices.on_the_way(route))
        self.target.routes[route] = self._unions.make(names, timeout, serves, clients)

    def _make_request_router(self, way: RouteName, path: Path, listener: Listener, timeout: float) -> None:
        clients = lambda: self.target.clients_of(way)  # noqa: E731 - it is about this way
        made = request_router(self._graph, path, self._routers, self._unions, listener, timeout, clients)
        self.target.routes[way] = made

    def samples(self) -> Iterator[Sample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for pool in self._pools.values():
            pool.topics_changed(cluster, topics)

    @property
    def linked(self) -> Collection[ClusterName]:
        """With those of pools, which are not left here either."""
        return self._graph.clusters.union(*map(clusters_of, self._pool_configs.values()))

    def change(self, wanted: Wanted, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target begins anew"
        self._unions.change(configured, configured.target.router.request_timeout, self._clusters.interval)
        for route, pool in self._pools.items():
            behind = _with_pool(configured, self._pool_configs[route])
            pool.change(wanted._replace(configured=behind), (), grace)

    def close(self) -> None:
        self._routers.close()
        self._unions.interceptors.close()


def _pool_of(services: Services, graph: Graph, path: Path) -> PoolConfig:
    """The pool to which these routes lead."""
    router = graph.at(path[:-1])
    assert isinstance(router, Router), "a route starts at one"
    (configured,) = (each for each in services.routers if each.name == router.name)
    (target,) = (route.target for route in configured.routes if route.name == path[-1])
    assert isinstance(target, ToPoolConfig), "as in the graph, which was made of it"
    return target.pool


def _with_pool(configured: VirtualClusterConfig, pool: PoolConfig) -> VirtualClusterConfig:
    """The same addresses, with the pool of a route behind them."""
    return configured.model_copy(update={"target": PoolTargetConfig(pool=pool)})
