"""A router that decides for each request, as it is configured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from mesh.app.configured_target import LinkedTarget, Services, Wanted
from mesh.app.router_making import Routers, graph_behind
from mesh.app.unions import Unions
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterReference, RouterTargetConfig
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.records.spans import ClusterName
from mesh.routing.graph import Graph, Leaf, Router
from mesh.routing.names import Path, RouteName
from mesh.routing.one_cluster import OneCluster
from mesh.routing.served import limited
from mesh.routing.spi import Served
from mesh.routing.union import Union
from mesh.runtime.relay.ending import Ending
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.request_router.request_samples import samples_of
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.runtime.router.leaves import SERVED
from mesh.runtime.router.runtime import RouterRuntime
from mesh.telemetry.metric_definitions import Sample
from mesh.wire.apis import ApiKey

_LAST_BY_NAME: Final = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}
"""Later versions call topics by ids, and nobody but its router says whose they are."""
SEEN_BY_NAME: Final[Served] = {
    key: (lowest, min(highest, _LAST_BY_NAME.get(key, highest)))
    for key, (lowest, highest) in SERVED.items()
    if key is not ApiKey.SHARE_FETCH
}
"""What is served where interceptors stand in front of such a router."""


class RequestTarget(LinkedTarget):
    """A router that decides for each request, with all that its routes lead to. Implements
    `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = unions = Unions(configured, graph, listener, services)
        self._routers = routers = Routers(graph, services.routers, configured.name)
        self.target = request_router(graph, (), routers, unions, listener, router.request_timeout)

    def samples(self) -> Iterator[Sample]:
        yield from samples_of(self.target)
        yield from self._unions.interceptors.samples()

    @property
    def linked(self) -> Collection[ClusterName]:
        return self._graph.clusters

    def change(self, wanted: Wanted, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target begins anew"
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
) -> RequestRouterRuntime:
    """The router at the end of a path, with all behind it. clients: that are led to it; None: all of the listener."""
    router = graph.at(path)
    assert isinstance(router, Router), "the path of one"
    kind = routers.of_requests(router.name)
    interceptors = unions.interceptors.in_front(path)
    if interceptors is not None:
        kind = replace(kind, serves=limited(SEEN_BY_NAME, kind.serves))
    routes: dict[RouteName, RouterRuntime] = {}
    for route in router.routes:
        here = (*path, route.name)
        found = graph.at(here)
        names = OneCluster(found) if isinstance(found, Leaf) else Union(graph, routers.by_names, here)
        routes[route.name] = unions.make(names, timeout, routers.serves(graph.behind(here)), lambda: (), path)
    return RequestRouterRuntime(
        listener,
        kind,
        routes,
        unions.ids,
        Ending(listener, clients),
        lambda: listener.admission.limits.request or LARGEST_REQUEST,
        unions.node_of,
        unions.memory,
        interceptors,
    )
