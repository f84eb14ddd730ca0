"""The target of a router that decides for each request, built from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from mesh.app.configured_target import ChangedConfig, LinkedTarget, Services
from mesh.app.router_making import Routers, graph_behind
from mesh.app.unions import Unions
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterReference, RouterTargetConfig
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, Graph, GraphRouter, Leaf
from mesh.routing.names import Path, RouteName
from mesh.routing.one_cluster import OneCluster
from mesh.routing.served import limited
from mesh.routing.spi import Served
from mesh.routing.union import Union
from mesh.runtime.entity_router.leaves import SERVED
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.request_router.request_samples import samples_of
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.telemetry.metric_definitions import MetricSample
from mesh.wire.apis import ApiKey
from mesh.wire.transaction_levels import of_first_protocol

_LAST_BY_NAME: Final = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}
"""The last versions that name topics by name. Later ones use ids, and only the router knows the cluster of an id."""
SEEN_BY_NAME: Final[Served] = {
    key: (lowest, min(highest, _LAST_BY_NAME.get(key, highest)))
    for key, (lowest, highest) in SERVED.items()
    if key is not ApiKey.SHARE_FETCH
}
"""The APIs that are served if interceptors are in front of such a router."""


class RequestRouterTarget(LinkedTarget):
    """A router that decides for each request, with everything behind its routes. Implements
    `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = unions = Unions(configured, graph, listener, services)
        self._routers = routers = services.parts.take_routers()
        self.target = request_router(graph, (), routers, unions, listener, router.request_timeout)

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()

    @property
    def linked(self) -> Collection[ClusterName]:
        return self._graph.clusters

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target starts again"
        self._unions.change(configured, configured.target.router.request_timeout, self._clusters.interval)

    def close(self) -> None:
        self._routers.close()
        self._unions.interceptors.close()


def request_router(
    graph: Graph,
    path: Path,
    routers: Routers,
    unions: Unions,
    listener: Listener,
    timeout: float,
    clients: Callable[[], Collection[Peer]] | None = None,
    parent: Path | None = None,
) -> RequestRouterRuntime:
    """Makes the router at the end of a path, with everything behind it. clients: returns the clients that are led to
    it; None for all of the listener. parent: the path of another such router, which sends it requests; None if clients
    connect to it."""
    router = graph.at(path)
    assert isinstance(router, GraphRouter), "the path of one"
    kind = routers.of_requests(router.name)
    interceptors = unions.interceptors.up_to(path, parent)
    if interceptors is not None:
        kind = replace(kind, serves=limited(SEEN_BY_NAME, kind.serves))
    if unions.interceptors.may_drop_produced:
        kind = replace(kind, serves=limited(of_first_protocol(SERVED), kind.serves))
    routes: dict[RouteName, EntityRouterRuntime | RequestRouterRuntime] = {}
    for route in router.routes:
        here = (*path, route.name)
        found = graph.at(here)
        if isinstance(found, GraphRouter) and found.decides is Decides.REQUESTS:
            routes[route.name] = request_router(graph, here, routers, unions, listener, timeout, lambda: (), path)
            continue
        names = OneCluster(found) if isinstance(found, Leaf) else Union(graph, routers.by_names, here)
        routes[route.name] = unions.make(names, timeout, routers.serves(graph.behind(here)), lambda: (), path)
    return RequestRouterRuntime(
        listener,
        kind,
        routes,
        unions.ids,
        GracefulStop(listener, clients),
        lambda: listener.admission.limits.request or LARGEST_REQUEST,
        unions.node_of,
        unions.memory,
        interceptors,
    )
