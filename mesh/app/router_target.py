"""A router that goes by names, as it is configured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from mesh.app.configured_target import ListenAddress, Services
from mesh.app.router_making import Routers, graph_behind
from mesh.app.unions import Unions, ports_of
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterConfig, RouterReference, RouterTargetConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.union import Union
from mesh.runtime.router.router_samples import samples_of
from mesh.telemetry.metric_definitions import Sample


def addresses_of_router(
    configured: VirtualClusterConfig, router: RouterReference, routers: Sequence[RouterConfig]
) -> tuple[ListenAddress, ...]:
    """One that stands for any node, one for the coordinator of a pool if there is one, and one for each declared node
    of each cluster."""
    graph = graph_behind(routers, router.name)
    host = configured.listen.host
    nodes = [ListenAddress(("nodes",), Address(host, port), node) for node, port in ports_of(configured, graph).items()]
    coordinator = [ListenAddress(("coordinator",), configured.coordinator, None)] if graph.pools else []
    return (ListenAddress(("listen",), configured.listen, None), *coordinator, *nodes)


class RouterTarget:
    """A router as it is configured. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._graph = graph = graph_behind(services.routers, router.name)
        self._unions = Unions(configured, graph, listener, services)
        self._routers = routers = Routers(graph, services.routers, configured.name)
        union = Union(graph, routers.by_names)
        self.target = self._unions.make(union, router.request_timeout, routers.serves(graph.routers))

    def samples(self) -> Iterator[Sample]:
        return samples_of(self.target)

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        """A router asks its leaves itself which topics there are."""

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        used = {leaf.cluster for leaf in self._graph.leaves}
        return None if used & set(anew) else frozenset()

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        raise AssertionError("a router that leaves a cluster begins anew")

    def change(self, configured: VirtualClusterConfig, left: Iterable[ClusterName], grace: float) -> None:
        assert isinstance(configured.target, RouterTargetConfig), "another kind of target begins anew"
        self._unions.change(configured, configured.target.router.request_timeout, self._clusters.interval)

    def close(self) -> None:
        self._routers.close()
