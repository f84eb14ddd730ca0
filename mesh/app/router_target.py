"""A router as it is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesh.app.configured_target import ListenAddress, Services
from mesh.app.node_places import NodeHealth, places
from mesh.config.graphs import configured as configured_router
from mesh.config.graphs import ports_of_nodes, router_of
from mesh.config.listeners import FIRST
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import VirtualClusterConfig
from mesh.config.router_types import AnyFactory
from mesh.config.routers import RouterConfig, RouterReference, RouterTargetConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.graph import Decides, Graph, Leaf, compile_graph
from mesh.routing.names import LeafNumber, RouterName
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.routing.producer_ids import equal_tags, tag_of
from mesh.routing.spi import EntityRouter, FactoryContext
from mesh.routing.union import Union
from mesh.runtime.relay.ending import Ending
from mesh.runtime.relay.listener_addresses import NodeOf, PlaceOf
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.router.leaves import ADVERTISED, SERVED, Leaves, RouterLeaf
from mesh.runtime.router.metadata import RouterMetadata
from mesh.runtime.router.requests import RouterRequests
from mesh.runtime.router.router_samples import samples_of
from mesh.runtime.router.runtime import RouterRuntime
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metric_definitions import Sample
from mesh.upstream.links.chunks import Chunks

log = get_logger(__name__)


def graph_behind(routers: Sequence[RouterConfig], root: RouterName) -> Graph:
    return compile_graph([router_of(each, *configured_router(each)) for each in routers], root)


def addresses_of_router(
    configured: VirtualClusterConfig, router: RouterReference, routers: Sequence[RouterConfig]
) -> tuple[ListenAddress, ...]:
    """One that stands for any node, and one for each declared node of each cluster."""
    ports = _ports(configured, graph_behind(routers, router.name))
    host = configured.listen.host
    nodes = [ListenAddress(("nodes",), Address(host, port), node) for node, port in ports.items()]
    return (ListenAddress(("listen",), configured.listen, None), *nodes)


class RouterTarget:
    """A router as it is configured. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, router: RouterReference, listener: Listener, services: Services
    ) -> None:
        self._configured = configured
        self._clusters = services.clusters
        self._alike: tuple[tuple[ClusterName, ClusterName], ...] = ()
        self._graph = graph = graph_behind(services.routers, router.name)
        self._made = _made(graph, services.routers, configured.name)
        union = Union(graph, {name: each.router for name, each in self._made.items()})
        node_of, self._place_of = _places(configured, graph)
        ending, chunks = Ending(listener), Chunks()
        leaves = [self._leaf(leaf, union, listener, services, ending, chunks) for leaf in graph.leaves]
        of_router = Leaves(leaves, union.default, union)
        metadata = RouterMetadata(of_router, f"kafka-mesh.{configured.name}")
        self._requests = RouterRequests(of_router, metadata, router.request_timeout)
        self.target = RouterRuntime(listener, of_router, self._requests, ending, node_of)

    def _leaf(
        self, leaf: Leaf, union: Union, listener: Listener, services: Services, ending: Ending, chunks: Chunks
    ) -> RouterLeaf:
        cluster, access = services.clusters.access(leaf.cluster)
        health = NodeHealth(services.upstream_health, leaf.cluster, self._configured.name)
        ids = NodeIds(each.number for each in union.leaves)
        nodes = RelayNodes(
            leaf.cluster,
            cluster.bootstrap_servers,
            access,
            lambda node: self._place_of_node(ids, leaf.number, node),
            services.clusters.interval,
            lambda undeclared: self._looked(health, undeclared),
        )
        served_here = RelayServices(
            listener,
            nodes,
            Traffic(),
            chunks,
            Requests(listener, LocalRequests()),
            SERVED,
            ADVERTISED,
            lambda: listener.admission.limits.request or LARGEST_REQUEST,
            False,
            lambda _: None,
            ending,
            nodes,
        )
        watching = asyncio.get_running_loop().create_task(nodes.watch(), name=f"nodes of {leaf}")
        return RouterLeaf(leaf.number, str(leaf), served_here, watching)

    def _place_of_node(self, ids: NodeIds, leaf: LeafNumber, node: int) -> tuple[str, int] | None:
        try:
            return self._place_of(ids.virtual(leaf, node))
        except NodeIdTooLarge:
            return None

    def _looked(self, health: NodeHealth, undeclared: frozenset[int]) -> None:
        health.looked({FIRST: undeclared})
        ids = {leaf.nodes.cluster: leaf.nodes.cluster_id for leaf in self.target.leaves}
        tags = {cluster: tag_of(id) for cluster, id in ids.items() if id is not None}
        if (alike := equal_tags(tags)) != self._alike:
            self._alike = alike
            for one, other in alike:
                log.error(
                    "producer ids of two clusters cannot be told apart in a third: let one of them be the default of "
                    "every router, and the other of none",
                    virtual_cluster=self._configured.name,
                    cluster=one,
                    other=other,
                )

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
        _, self._place_of = _places(configured, self._graph)
        self._requests.timeout = configured.target.router.request_timeout
        for leaf in self.target.leaves:
            leaf.nodes.interval = self._clusters.interval


@dataclass(frozen=True, slots=True)
class _Made:
    """A router at work, and what closes it."""

    router: EntityRouter
    factory: AnyFactory
    shared: Any


def _made(graph: Graph, routers: Sequence[RouterConfig], virtual_cluster: str) -> dict[RouterName, _Made]:
    """The routers of a graph. Raises ConfigurationError for one that cannot begin, or that is of a kind that does not
    run yet."""
    made: dict[RouterName, _Made] = {}
    for index, each in enumerate(routers):
        if each.name not in graph.routers:
            continue
        factory, config = configured_router(each)
        if factory.decides is not Decides.NAMES:
            allowed = "a type of router that goes by names: of others the configuration is checked, and no more yet"
            raise ConfigurationError([Mistake(("routers", index, "type"), each.type, allowed)])
        context = FactoryContext(each.name, virtual_cluster, tuple(route.name for route in each.routes))
        try:
            shared = factory.initialize(context, config)
            router = factory.create_router(context, shared)
        except Exception as problem:
            allowed = f"what its type can begin with: {type(problem).__name__}: {problem}"
            raise ConfigurationError([Mistake(("routers", index, "config"), "", allowed)]) from problem
        assert isinstance(router, EntityRouter), "what its factory says that it decides on"
        made[each.name] = _Made(router, factory, shared)
    return made


def _ports(configured: VirtualClusterConfig, graph: Graph) -> dict[int, int]:
    return ports_of_nodes(configured.nodes, graph) if configured.nodes is not None else {}


def _places(configured: VirtualClusterConfig, graph: Graph) -> tuple[NodeOf, PlaceOf]:
    (listener,) = configured.all_listeners()
    return places(listener, _ports(configured, graph))
