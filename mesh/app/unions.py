"""The unions behind one virtual cluster: each is made of its leaves and of the names that they are known by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

from mesh.app.configured_target import Services
from mesh.app.node_places import NodeHealth, places
from mesh.config.graphs import ports_of_nodes
from mesh.config.listeners import FIRST
from mesh.config.model import VirtualClusterConfig
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.listener.requests import Requests
from mesh.records.spans import ClusterName
from mesh.routing.entities import Names
from mesh.routing.graph import Graph, Leaf
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.routing.producer_ids import equal_tags, tag_of
from mesh.runtime.relay.ending import Ending
from mesh.runtime.relay.listener_addresses import NodeOf, PlaceOf
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.router.leaf_nodes import LeafNodes
from mesh.runtime.router.leaves import ADVERTISED, SERVED, Leaves, RouterLeaf
from mesh.runtime.router.metadata import RouterMetadata
from mesh.runtime.router.requests import RouterRequests
from mesh.runtime.router.runtime import RouterRuntime
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.chunks import Chunks

log = get_logger(__name__)


class NamesOfLeaves(Names, Protocol):
    """A union, or one cluster in its place. default: the leaf of what has no name."""

    @property
    def leaves(self) -> tuple[Leaf, ...]: ...

    @property
    def default(self) -> LeafNumber: ...


class Unions:
    """The unions behind one virtual cluster. graph: all that it leads to."""

    def __init__(self, configured: VirtualClusterConfig, graph: Graph, listener: Listener, services: Services) -> None:
        self._name = configured.name
        self._graph = graph
        self._listener = listener
        self._services = services
        self._ids = NodeIds(leaf.number for leaf in graph.leaves)
        self._chunks = Chunks()
        self._alike: tuple[tuple[ClusterName, ClusterName], ...] = ()
        self._made: list[tuple[RouterRuntime, RouterRequests]] = []
        self.node_of, self._place_of = places_of(configured, graph)

    def make(
        self, names: NamesOfLeaves, timeout: float, clients: Callable[[], Collection[Peer]] | None = None
    ) -> RouterRuntime:
        """timeout: seconds that a leaf has besides what it is asked to wait. clients: of this union; None: all of the
        listener."""
        ending = Ending(self._listener, clients)
        made = [self._leaf(leaf, ending) for leaf in names.leaves]
        leaves = Leaves(made, names.default, names, self._ids)
        metadata = RouterMetadata(leaves, f"kafka-mesh.{self._name}")
        requests = RouterRequests(leaves, metadata, timeout)
        runtime = RouterRuntime(self._listener, leaves, requests, ending, self.node_of)
        self._made.append((runtime, requests))
        return runtime

    def change(self, configured: VirtualClusterConfig, timeout: float, interval: float) -> None:
        """interval: seconds between two looks at a cluster."""
        _, self._place_of = places_of(configured, self._graph)
        for runtime, requests in self._made:
            requests.timeout = timeout
            for leaf in runtime.leaves:
                leaf.nodes.interval = interval

    def _leaf(self, leaf: Leaf, ending: Ending) -> RouterLeaf:
        clusters, listener = self._services.clusters, self._listener
        cluster, access = clusters.access(leaf.cluster)
        health = NodeHealth(self._services.upstream_health, leaf.cluster, self._name)
        nodes = LeafNodes(
            leaf.cluster,
            cluster.bootstrap_servers,
            access,
            lambda node: self._place_of_node(leaf.number, node),
            clusters.interval,
            lambda undeclared: self._looked(health, undeclared),
        )
        served_here = RelayServices(
            listener,
            nodes,
            Traffic(),
            self._chunks,
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
        return RouterLeaf(leaf.number, str(leaf), served_here, nodes, watching)

    def _place_of_node(self, leaf: LeafNumber, node: int) -> tuple[str, int] | None:
        try:
            return self._place_of(self._ids.virtual(leaf, node))
        except NodeIdTooLarge:
            return None

    def _looked(self, health: NodeHealth, undeclared: frozenset[int]) -> None:
        health.looked({FIRST: undeclared})
        leaves = [leaf for runtime, _ in self._made for leaf in runtime.leaves]
        ids = {leaf.nodes.cluster: leaf.nodes.cluster_id for leaf in leaves}
        tags = {cluster: tag_of(id) for cluster, id in ids.items() if id is not None}
        if (alike := equal_tags(tags)) != self._alike:
            self._alike = alike
            for one, other in alike:
                log.error(
                    "producer ids of two clusters cannot be told apart in a third: let one of them be the default of "
                    "every router, and the other of none",
                    virtual_cluster=self._name,
                    cluster=one,
                    other=other,
                )


def ports_of(configured: VirtualClusterConfig, graph: Graph) -> dict[int, int]:
    """Of the declared nodes, by the ids that clients see."""
    return ports_of_nodes(configured.nodes, graph) if configured.nodes is not None else {}


def places_of(configured: VirtualClusterConfig, graph: Graph) -> tuple[NodeOf, PlaceOf]:
    (listener,) = configured.all_listeners()
    return places(listener, ports_of(configured, graph))
