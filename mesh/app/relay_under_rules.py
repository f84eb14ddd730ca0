"""The target of a relay with rules: a union of one cluster, so that the mesh checks requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from mesh.app.configured_target import ChangedConfig, LinkedTarget, Services
from mesh.app.from_config import has_credentials, refused_apis
from mesh.app.unions import Unions
from mesh.config.model import VirtualClusterConfig
from mesh.config.relay import RelayConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName
from mesh.routing.graph import Graph, GraphRouter, Route, ToCluster, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.one_cluster import OneCluster
from mesh.runtime.entity_router.router_samples import samples_of
from mesh.runtime.topologies.topology_samples import samples_of as samples_of_topologies
from mesh.telemetry.metric_definitions import MetricSample

REQUEST_TIMEOUT: Final = 30.0
"""Seconds that the cluster has for a request that the mesh does not pass on unchanged, beyond the request's own
wait."""


class RelayUnderRules(LinkedTarget):
    """A relay with rules. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, relay: RelayConfig, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._cluster = relay.cluster
        cluster, settings = services.clusters.cluster_with_settings(relay.cluster)
        refused = refused_apis(relay, has_credentials=has_credentials(cluster, settings))
        graph = _graph_of(relay.cluster)
        self._unions = Unions(configured, graph, listener, services, refused)
        self.target = self._unions.make(OneCluster(graph.leaves[0]), REQUEST_TIMEOUT, None)

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()
        yield from samples_of_topologies(*self._unions.topologies or ())

    @property
    def linked(self) -> Collection[ClusterName]:
        return (self._cluster,)

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        self._unions.change(wanted.configured, REQUEST_TIMEOUT, self._clusters.interval)

    def close(self) -> None:
        self._unions.interceptors.close()


def _graph_of(cluster: ClusterName) -> Graph:
    """Returns the graph of one cluster, as leaf 0, so that its nodes keep their ids."""
    root = RouterName(cluster)
    return compile_graph([GraphRouter(root, (Route(RouteName(cluster), 0, ToCluster(cluster)),))], root)
