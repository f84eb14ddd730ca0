"""The unions behind one virtual cluster: each is made of its leaves and of the names that they are known by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from mesh.app.configured_target import Services
from mesh.app.group_health import GroupHealth
from mesh.app.interception import ConfiguredInterceptors, NamesOnTheWay, intercepts_fetch
from mesh.app.node_places import NodeHealth, places
from mesh.config.graphs import ports_of_nodes
from mesh.config.listeners import FIRST
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.listener.requests import Requests
from mesh.records.spans import ClusterName
from mesh.routing.entities import Names
from mesh.routing.graph import Graph, Leaf
from mesh.routing.names import LeafNumber, Path
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.routing.producer_ids import equal_tags
from mesh.routing.served import limited
from mesh.routing.spi import Served
from mesh.runtime.interception.topic_names import FIRST_BY_ID as BY_ID
from mesh.runtime.interception.topic_names import AskMetadata
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
from mesh.wire.apis import ApiKey

log = get_logger(__name__)


class NamesOfLeaves(Names, NamesOnTheWay, Protocol):
    """A union, or one cluster in its place. default: the leaf of what has no name."""

    @property
    def leaves(self) -> tuple[Leaf, ...]: ...

    @property
    def default(self) -> LeafNumber: ...


class Unions:
    """The unions behind one virtual cluster. graph: all that it leads to. refused: APIs that are not served."""

    def __init__(
        self,
        configured: VirtualClusterConfig,
        graph: Graph,
        listener: Listener,
        services: Services,
        refused: Collection[ApiKey] = (),
    ) -> None:
        self._name = configured.name
        self._configured = configured
        self._is_relay = isinstance(configured.target, RelayTargetConfig)
        self._graph = graph
        self._listener = listener
        self._services = services
        self.memory = services.memory.requests
        self._served = {key: each for key, each in SERVED.items() if key not in refused}
        self._advertised = {key: each for key, each in ADVERTISED.items() if key not in refused}
        self.ids = NodeIds(leaf.number for leaf in graph.leaves)
        self._chunks = Chunks()
        self._alike: tuple[tuple[ClusterName, ClusterName], ...] = ()
        self._made: list[tuple[RouterRuntime, RouterRequests]] = []
        self.interceptors = ConfiguredInterceptors(configured, services, None if self._is_relay else graph)
        self.node_of, self._place_of = places_of(configured, graph)

    def make(
        self,
        names: NamesOfLeaves,
        timeout: float,
        serves: Served | None,
        clients: Callable[[], Collection[Peer]] | None = None,
        behind: Path | None = None,
    ) -> RouterRuntime:
        """timeout: seconds that a leaf has besides what it is asked to wait. serves: what its routers let clients use;
        None: all. clients: of this union; None: all of the listener. behind: the routes to a router that sends it its
        requests, whose clients have met the interceptors in front of it; None: clients come to it."""
        ending = Ending(self._listener, clients)
        made = [self._leaf(leaf, ending, serves) for leaf in names.leaves]
        leaves = Leaves(made, names.default, names, self.ids)
        metadata = RouterMetadata(leaves, None if self._is_relay else f"kafka-mesh.{self._name}")
        health = GroupHealth(self._services.upstream_health, leaves, self._name)
        requests = RouterRequests(leaves, metadata, timeout, health)
        ask: AskMetadata = lambda asked: metadata.answer(asked, BY_ID)  # noqa: E731 - it is about these leaves
        made_of = self.interceptors
        interceptors = made_of.on_the_way(names, ask) if behind is None else made_of.behind(behind, names, ask)
        for leaf in made:
            leaf.services.interceptors = interceptors
        runtime = RouterRuntime(self._listener, leaves, requests, ending, self.node_of, interceptors, self.memory)
        self._made.append((runtime, requests))
        return runtime

    def change(self, configured: VirtualClusterConfig, timeout: float, interval: float) -> None:
        """interval: seconds between two looks at a cluster."""
        _, self._place_of = places_of(configured, self._graph)
        for runtime, requests in self._made:
            requests.timeout = timeout
            for leaf in runtime.leaves:
                leaf.nodes.interval = interval

    def rearrange(
        self, graph: Graph, routers: Sequence[RouterConfig], names: NamesOfLeaves, serves: Served | None
    ) -> None:
        """Of the only union: its leaves are those of another graph from now on, which `can_become` this one."""
        ((runtime, _),) = self._made
        before = {leaf.number for leaf in self._graph.leaves}
        after = {leaf.number for leaf in graph.leaves}
        self._graph, self.ids = graph, NodeIds(after)
        added = [self._leaf(leaf, runtime.ending, serves) for leaf in graph.leaves if leaf.number not in before]
        for leaf in added:
            leaf.services.interceptors = runtime.interceptors
        self.interceptors.rearrange(graph, routers)
        if runtime.interceptors is not None:
            runtime.interceptors.selection.change(self.interceptors.stops(names))
        for known in runtime.leaves:
            known.services.served = self._without_share_fetch(limited(self._served, serves))
            known.services.advertised = self._without_share_fetch(limited(self._advertised, serves))
        runtime.change(added, before - after, names, self.ids)

    def _leaf(self, leaf: Leaf, ending: Ending, serves: Served | None) -> RouterLeaf:
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
            self._without_share_fetch(limited(self._served, serves)),
            self._without_share_fetch(limited(self._advertised, serves)),
            lambda: listener.admission.limits.request or LARGEST_REQUEST,
            False,
            lambda _: None,
            ending,
            nodes,
        )
        watching = asyncio.get_running_loop().create_task(nodes.watch(), name=f"nodes of {leaf}")
        return RouterLeaf(leaf.number, str(leaf), served_here, nodes, watching, cluster.producer_id_tag)

    def _without_share_fetch(self, apis: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, tuple[int, int]]:
        """Where interceptors see what is fetched: share consumers would be given what others are not shown."""
        if not intercepts_fetch(self._configured, self._services.interceptors, self._services.routers):
            return apis
        return {key: versions for key, versions in apis.items() if key is not ApiKey.SHARE_FETCH}

    def _place_of_node(self, leaf: LeafNumber, node: int) -> tuple[str, int] | None:
        try:
            return self._place_of(self.ids.virtual(leaf, node))
        except NodeIdTooLarge:
            return None

    def _looked(self, health: NodeHealth, undeclared: frozenset[int]) -> None:
        health.looked({FIRST: undeclared})
        leaves = [leaf for runtime, _ in self._made for leaf in runtime.leaves]
        tags = {leaf.nodes.cluster: leaf.tag for leaf in leaves if leaf.tag is not None}
        if (alike := equal_tags(tags)) != self._alike:
            self._alike = alike
            for one, other in alike:
                log.error(
                    "producer ids of two clusters cannot be told apart in a third: give one of them a producer_id_tag "
                    "that no other has",
                    virtual_cluster=self._name,
                    cluster=one,
                    other=other,
                )


def ports_of(configured: VirtualClusterConfig, graph: Graph) -> dict[int, int]:
    """Of the declared nodes, by the ids that clients see."""
    if configured.nodes is None:
        return {}
    if isinstance(configured.target, RelayTargetConfig):
        return configured.nodes.port_of()
    return ports_of_nodes(configured.nodes, graph)


def places_of(configured: VirtualClusterConfig, graph: Graph) -> tuple[NodeOf, PlaceOf]:
    (listener,) = configured.all_listeners()
    return places(listener, ports_of(configured, graph))
