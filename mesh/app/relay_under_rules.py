"""A relay whose clients are under rules, as it is configured: a union of one cluster, whose requests are judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from mesh.app.configured_target import LinkedTarget, Services, Wanted
from mesh.app.from_config import has_credentials, refused_apis
from mesh.app.unions import Unions
from mesh.config.model import VirtualClusterConfig
from mesh.config.relay import RelayConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName
from mesh.routing.graph import Graph, Route, Router, ToCluster, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.one_cluster import OneCluster
from mesh.runtime.router.router_samples import samples_of
from mesh.telemetry.metric_definitions import Sample

REQUEST_TIMEOUT: Final = 30.0
"""Seconds that the cluster has for what does not pass, above what the request itself may wait."""


class RelayUnderRules(LinkedTarget):
    """A relay with rules, as it is configured. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, relay: RelayConfig, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._cluster = relay.cluster
        cluster, access = services.clusters.access(relay.cluster)
        refused = refused_apis(relay, has_credentials=has_credentials(cluster, access))
        graph = _graph_of(relay.cluster)
        self._unions = Unions(configured, graph, listener, services, refused)
        self.target = self._unions.make(OneCluster(graph.leaves[0]), REQUEST_TIMEOUT, None)

    def samples(self) -> Iterator[Sample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()

    @property
    def linked(self) -> Collection[ClusterName]:
        return (self._cluster,)

    def change(self, wanted: Wanted, left: Iterable[ClusterName], grace: float) -> None:
        self._unions.change(wanted.configured, REQUEST_TIMEOUT, self._clusters.interval)

    def close(self) -> None:
        self._unions.interceptors.close()


def _graph_of(cluster: ClusterName) -> Graph:
    """It alone, as leaf 0: its nodes keep their ids."""
    root = RouterName(cluster)
    return compile_graph([Router(root, (Route(RouteName(cluster), 0, ToCluster(cluster)),))], root)
