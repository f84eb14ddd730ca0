"""The target of a union as one node, built from the configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from mesh.app.configured_target import ChangedConfig, LinkedTarget, Services
from mesh.app.one_node_target import shown_of
from mesh.app.router_making import graph_behind
from mesh.app.unions import Unions
from mesh.config.graphs import routers_behind
from mesh.config.listeners import FIRST
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterReference, RouterTargetConfig
from mesh.listener.listener import Listener
from mesh.listener.samples import samples_of as listener_samples
from mesh.records.spans import ClusterName
from mesh.routing.union import Union
from mesh.runtime.entity_router.router_samples import samples_of_leaves
from mesh.runtime.one_node.unions import OneUnionRuntime
from mesh.telemetry.metric_definitions import MetricSample


class OneUnionTarget(LinkedTarget):
    """A union as one node. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._configs, self._root = services.routers, router.name
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = unions = Unions(configured, graph, listener, services)
        self._routers = routers = services.parts.take_routers()
        serves = routers.serves(graph.routers)
        union = unions.make(Union(graph, routers.by_names), router.request_timeout, serves, lambda: ())
        shown = shown_of(configured)[FIRST]
        self.target = OneUnionRuntime(listener, union, unions.ids, shown, serves, unions.memory)

    def samples(self) -> Iterator[MetricSample]:
        yield from listener_samples(self.target.listener)
        yield from samples_of_leaves(self.target.name, self.target.union.leaves)

    @property
    def linked(self) -> Collection[ClusterName]:
        return self._graph.clusters

    def clusters_to_leave(
        self, wanted: ChangedConfig, reconnected: Collection[ClusterName]
    ) -> frozenset[ClusterName] | None:
        root = self._root
        is_same = routers_behind(wanted.routers, root) == routers_behind(self._configs, root)
        return super().clusters_to_leave(wanted, reconnected) if is_same else None

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target starts again"
        self._unions.change(configured, configured.target.router.request_timeout, self._clusters.interval)
        self.target.change(shown_of(configured)[FIRST])

    def close(self) -> None:
        self._routers.close()
        self._unions.interceptors.close()
