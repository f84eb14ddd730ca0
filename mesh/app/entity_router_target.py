"""The target of a router that decides by names, built from the configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from mesh.app.configured_target import ChangedConfig, LinkedTarget, ListenAddress, Services
from mesh.app.router_making import graph_behind
from mesh.app.unions import Unions, ports_of
from mesh.config.graphs import routers_behind
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterConfig, RouterReference, RouterTargetConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, Graph
from mesh.routing.union import Union
from mesh.runtime.connection_router.runtime import COORDINATOR
from mesh.runtime.entity_router.router_samples import samples_of
from mesh.runtime.topologies.topology_samples import samples_of as samples_of_topologies
from mesh.telemetry.metric_definitions import MetricSample


def addresses_of_router(
    configured: VirtualClusterConfig, router: RouterReference, routers: Sequence[RouterConfig]
) -> tuple[ListenAddress, ...]:
    """Returns the addresses of a router: one for any node, one for the coordinator of a pool if there is one, and one
    for each declared node of each cluster."""
    graph = graph_behind(routers, router.name)
    host = configured.listen.host
    nodes = [ListenAddress(("nodes",), Address(host, port), node) for node, port in ports_of(configured, graph).items()]
    coordinator = [ListenAddress(("coordinator",), configured.coordinator, COORDINATOR)] if graph.pools else []
    return (ListenAddress(("listen",), configured.listen, None), *coordinator, *nodes)


class EntityRouterTarget(LinkedTarget):
    """A router that decides by names. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._configs, self._root = services.routers, router.name
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = Unions(configured, graph, listener, services)
        self._routers = routers = services.parts.take_routers()
        union = Union(graph, routers.by_names)
        self.target = self._unions.make(union, router.request_timeout, routers.serves(graph.routers))

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()
        yield from samples_of_topologies(*self._unions.topologies or ())

    @property
    def linked(self) -> Collection[ClusterName]:
        return self._graph.clusters

    def clusters_to_leave(
        self, wanted: ChangedConfig, reconnected: Collection[ClusterName]
    ) -> frozenset[ClusterName] | None:
        return super().clusters_to_leave(wanted, reconnected) if self._can_become(wanted) else None

    def _can_become(self, wanted: ChangedConfig) -> bool:
        """Returns whether all connections may stay: every node keeps its id, and producers keep the source of their
        ids."""
        if self._is_same(wanted):
            return True
        graph = graph_behind(wanted.routers, _reference_of(wanted).name)
        if any(router.decides is not Decides.NAMES for router in graph.routers.values()):
            return False
        moved = (graph.leaf(leaf.number) for leaf in self._graph.leaves)
        if any(
            now is not None and now.cluster != was.cluster for was, now in zip(self._graph.leaves, moved, strict=True)
        ):
            return False
        assert wanted.parts.routers is not None, "made for a router that changes"
        return Union(graph, wanted.parts.routers.by_names).default == self.target.leaves.default.number

    def _is_same(self, wanted: ChangedConfig) -> bool:
        """Returns whether the routers stay as they are."""
        root = _reference_of(wanted).name
        return root == self._root and routers_behind(wanted.routers, root) == routers_behind(self._configs, root)

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        router = _reference_of(wanted)
        if not self._is_same(wanted):
            self._rearrange(graph_behind(wanted.routers, router.name), wanted)
        self._unions.change(wanted.configured, router.request_timeout, self._clusters.interval)

    def _rearrange(self, graph: Graph, wanted: ChangedConfig) -> None:
        before, self._routers = self._routers, wanted.parts.take_routers()
        self._graph, self._configs, self._root = graph, wanted.routers, _reference_of(wanted).name
        names = Union(graph, self._routers.by_names)
        self._unions.rearrange(graph, wanted, names, self._routers.serves(graph.routers))
        before.close()

    def close(self) -> None:
        self._routers.close()
        self._unions.interceptors.close()


def _reference_of(wanted: ChangedConfig) -> RouterReference:
    assert isinstance(wanted.configured.target, RouterTargetConfig), "another kind of target starts again"
    return wanted.configured.target.router
