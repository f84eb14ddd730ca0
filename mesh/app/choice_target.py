"""A router that chooses by connection, as it is configured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from mesh.app.configured_target import Services
from mesh.app.from_config import clusters_of
from mesh.app.pool_target import PoolTarget
from mesh.app.router_making import Routers, graph_behind
from mesh.app.unions import Unions
from mesh.config.model import PoolTargetConfig, VirtualClusterConfig
from mesh.config.pool import PoolConfig
from mesh.config.routers import RouterReference, RouterTargetConfig, ToPoolConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.graph import Leaf, PoolEnd
from mesh.routing.names import RouteName
from mesh.routing.one_cluster import OneCluster
from mesh.routing.spi import ConnectionRouter
from mesh.routing.union import Union
from mesh.runtime.choice.choice_samples import samples_of
from mesh.runtime.choice.runtime import ChoiceRuntime
from mesh.telemetry.metric_definitions import Sample


class ChoiceTarget:
    """A router that chooses by connection, with all that its routes lead to. Implements
    `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = Unions(configured, graph, listener, services)
        self._routers = routers = Routers(graph, services.routers, configured.name)
        root = routers.at(graph.root)
        assert isinstance(root, ConnectionRouter), "its target is another one else"
        self.target = ChoiceRuntime(listener, root, self._unions.node_of)
        self._pools: dict[RouteName, PoolTarget] = {}
        self._pool_configs = _pools_of(services, router)
        for route in graph.routers[graph.root].routes:
            match graph.at((route.name,)):
                case PoolEnd():
                    behind = _with_pool(configured, self._pool_configs[route.name])
                    assert isinstance(behind.target, PoolTargetConfig)
                    pool = PoolTarget(behind, behind.target.pool, listener, services)
                    self._pools[route.name] = pool
                    self.target.routes[route.name] = pool.target
                case Leaf() as leaf:
                    self._make_union(route.name, OneCluster(leaf), router.request_timeout)
                case _:
                    union = Union(graph, routers.by_names, (route.name,))
                    self._make_union(route.name, union, router.request_timeout)

    def _make_union(self, route: RouteName, names: Union | OneCluster, timeout: float) -> None:
        clients = lambda: self.target.clients_of(route)  # noqa: E731 - it is about this route
        serves = self._routers.serves({self._graph.root, *self._graph.behind((route,))})
        self.target.routes[route] = self._unions.make(names, timeout, serves, clients)

    def samples(self) -> Iterator[Sample]:
        return samples_of(self.target)

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for pool in self._pools.values():
            pool.topics_changed(cluster, topics)

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        used = {leaf.cluster for leaf in self._graph.leaves}
        for pool in self._pool_configs.values():
            used |= clusters_of(pool)
        return None if used & set(anew) else frozenset()

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        raise AssertionError("a router that leaves a cluster begins anew")

    def change(self, configured: VirtualClusterConfig, left: Iterable[ClusterName], grace: float) -> None:
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target begins anew"
        self._unions.change(configured, configured.target.router.request_timeout, self._clusters.interval)
        for route, pool in self._pools.items():
            pool.change(_with_pool(configured, self._pool_configs[route]), (), grace)

    def close(self) -> None:
        self._routers.close()


def _pools_of(services: Services, router: RouterReference) -> dict[RouteName, PoolConfig]:
    (root,) = (each for each in services.routers if each.name == router.name)
    return {route.name: route.target.pool for route in root.routes if isinstance(route.target, ToPoolConfig)}


def _with_pool(configured: VirtualClusterConfig, pool: PoolConfig) -> VirtualClusterConfig:
    """The same addresses, with the pool of a route behind them."""
    return configured.model_copy(update={"target": PoolTargetConfig(pool=pool)})
