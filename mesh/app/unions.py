"""The unions behind one virtual cluster: each is made of its leaves and of the names of their topics and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from mesh.app.configured_target import ChangedConfig, Services
from mesh.app.group_health import GroupHealth
from mesh.app.interception import ConfiguredInterceptors, NamesByRoute, intercepts_fetch
from mesh.app.node_places import NodeHealth, places
from mesh.app.part_health import PartHealth
from mesh.app.topologies import cluster_topologies_of
from mesh.config.graphs import ports_of_nodes
from mesh.config.listeners import FIRST
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.config.moves import MovesConfig
from mesh.config.relay import NodesConfig
from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.listener.requests import Requests
from mesh.records.spans import ClusterName
from mesh.routing.entities import UnionNames
from mesh.routing.graph import Graph, Leaf
from mesh.routing.moves.move import Move
from mesh.routing.moves.names import MovedNames
from mesh.routing.names import LeafNumber, Path, RouteName
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.routing.producer_ids import equal_tags
from mesh.routing.served import limited
from mesh.routing.spi import Served
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.entity_router.leaves import ADVERTISED, SERVED, Leaves, RouterLeaf
from mesh.runtime.entity_router.metadata import RouterMetadata
from mesh.runtime.entity_router.moves.gate import WriteGate
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.runtime.entity_router.parts import KnownParts
from mesh.runtime.entity_router.requests import RouterRequests
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.interception.topic_names import FIRST_BY_ID as BY_ID
from mesh.runtime.interception.topic_names import AskMetadata
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.runtime.relay.listener_addresses import AdvertisedAddress, NodeOf
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.traffic import Traffic
from mesh.tasks import OwnedTask, TaskName, keep
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.chunks import Chunks
from mesh.wire.apis import ApiKey
from mesh.wire.transaction_levels import of_first_protocol

log = get_logger(__name__)


class NamesOfLeaves(UnionNames, NamesByRoute, Protocol):
    """The names of a union, or of one cluster in its place. default: the leaf for requests without a name."""

    @property
    def leaves(self) -> tuple[Leaf, ...]: ...

    @property
    def default(self) -> LeafNumber: ...


class Unions:
    """The unions behind one virtual cluster. graph: everything behind it. refused: APIs that are not served."""

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
        self.ids = NodeIds(leaf.number for leaf in graph.leaves)
        self._chunks = Chunks()
        self._colliding_tags: tuple[tuple[ClusterName, ClusterName], ...] = ()
        self._made: list[tuple[EntityRouterRuntime, RouterRequests]] = []
        self._names: NamesOfLeaves | None = None
        """The names of its leaves, from its routers; used if topics may be moved."""
        self._parts = services.parts
        self.topologies = cluster_topologies_of(configured, services, lambda: self._parts)
        self.interceptors = ConfiguredInterceptors(configured, services, None if self._is_relay else graph)
        serves = of_first_protocol(SERVED) if self.interceptors.may_drop_produced else SERVED
        self._served = {key: each for key, each in serves.items() if key not in refused}
        self._advertised = limited({key: each for key, each in ADVERTISED.items() if key not in refused}, self._served)
        self.node_of, self._place_of = places_of(configured, graph)

    def make(
        self,
        names: NamesOfLeaves,
        timeout: float,
        serves: Served | None,
        clients: Callable[[], Collection[Peer]] | None = None,
        parent: Path | None = None,
    ) -> EntityRouterRuntime:
        """Makes a union.

        timeout: seconds that a leaf has beyond a request's own wait.
        serves: the APIs that its routers let clients use; None for all.
        clients: returns the clients of this union; None for all of the listener.
        parent: the path of a router that sends it requests, which have passed the interceptors in front of that router;
            None if clients connect to the union.
        """
        graceful_stop = GracefulStop(self._listener, clients)
        made = [self._leaf(leaf, graceful_stop, serves) for leaf in names.leaves]
        leaves = Leaves(made, names.default, names, self.ids)
        parts = KnownParts(leaves, PartHealth(self._services.upstream_health, leaves, self._name))
        metadata = RouterMetadata(leaves, None if self._is_relay else f"kafka-mesh.{self._name}", parts)
        for leaf in made:
            leaf.nodes.check_further = partial(metadata.check_parts, leaf)
        health = GroupHealth(self._services.upstream_health, leaves, self._name)
        requests = RouterRequests(leaves, metadata, timeout, health)
        ask: AskMetadata = lambda asked: metadata.answer(asked, BY_ID)  # noqa: E731 - it is about these leaves
        made_of = self.interceptors
        interceptors = made_of.for_names(names, ask) if parent is None else made_of.after(parent, names, ask)
        topologies = self.topologies if parent is None else None
        for leaf in made:
            leaf.services.interceptors = interceptors
            leaf.services.topologies = topologies.of(leaf.nodes) if topologies is not None else None
        runtime = EntityRouterRuntime(
            self._listener, leaves, requests, graceful_stop, self.node_of, interceptors, self.memory
        )
        runtime.topologies = topologies
        self._made.append((runtime, requests))
        if (moves := self._configured.moves) is not None:
            self._names = names
            self._enable_moves(runtime, requests, moves)
        return runtime

    def _enable_moves(self, runtime: EntityRouterRuntime, requests: RouterRequests, configured: MovesConfig) -> None:
        """Lets operators move topics of this union. Its clients wait until the clusters of moved topics are known."""
        gate = WriteGate(runtime.clients, asyncio.get_running_loop().time)
        store = self._services.store
        assert store is not None, "as was checked"

        def lead(moves: Sequence[Move]) -> None:
            assert self._names is not None, "it has moves"
            runtime.change((), (), MovedNames(self._names, moves), self.ids)
            runtime.topics_moved([each.topic for each in moves])

        def has_no_interceptors(path: str) -> bool:
            return self.interceptors.has_no_interceptors(tuple(map(RouteName, path.split("/"))))

        runtime.moves = Moves(
            self._name,
            store,
            runtime.leaves,
            gate,
            has_no_interceptors,
            lead,
            configured.hold,
            lambda: requests.timeout,
        )
        requests.follow(gate, runtime.moves.offset_of)

    def change(self, configured: VirtualClusterConfig, timeout: float, interval: float) -> None:
        """Applies a changed configuration. timeout: seconds that a leaf has beyond a request's own wait. interval:
        seconds between two looks at a cluster."""
        _, self._place_of = places_of(configured, self._graph)
        for runtime, requests in self._made:
            requests.timeout = timeout
            for leaf in runtime.leaves:
                leaf.nodes.interval = interval

    def rearrange(self, graph: Graph, wanted: ChangedConfig, names: NamesOfLeaves, serves: Served | None) -> None:
        """Changes the only union: from now on its leaves are those of another graph. The caller has checked that all
        connections may stay."""
        ((runtime, requests),) = self._made
        self._parts = wanted.parts
        metadata = requests.topic_names
        before = {leaf.number for leaf in self._graph.leaves}
        after = {leaf.number for leaf in graph.leaves}
        gone = [leaf.cluster for leaf in self._graph.leaves if leaf.number not in after]
        self._graph, self.ids = graph, NodeIds(after)
        added = [self._leaf(leaf, runtime.graceful_stop, serves) for leaf in graph.leaves if leaf.number not in before]
        for leaf in added:
            leaf.services.interceptors = runtime.interceptors
            leaf.nodes.check_further = partial(metadata.check_parts, leaf)
        if self.topologies is not None:
            for cluster in gone:
                self.topologies.leave(cluster)
            for leaf in added:
                leaf.services.topologies = self.topologies.of(leaf.nodes)
        self.interceptors.rearrange(graph, wanted.routers)
        if runtime.interceptors is not None:
            runtime.interceptors.selection.change(self.interceptors.points(names))
        for known in runtime.leaves:
            known.services.served = self._without_share_fetch(limited(self._served, serves))
            known.services.advertised = self._without_share_fetch(limited(self._advertised, serves))
        if runtime.moves is not None:
            self._names = names
            names = MovedNames(names, runtime.moves.all)
        runtime.change(added, before - after, names, self.ids)

    def _leaf(self, leaf: Leaf, graceful_stop: GracefulStop, serves: Served | None) -> RouterLeaf:
        clusters, listener = self._services.clusters, self._listener
        cluster, settings = clusters.cluster_with_settings(leaf.cluster)
        health = NodeHealth(self._services.upstream_health, leaf.cluster, self._name)
        nodes = LeafNodes(
            leaf.cluster,
            cluster.bootstrap_servers,
            settings,
            lambda node: self._place_of_node(leaf.number, node),
            clusters.interval,
            lambda undeclared: self._nodes_checked(health, undeclared),
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
            graceful_stop,
            nodes,
        )
        watching = keep(OwnedTask(TaskName.BROKERS, self._name, leaf.cluster), nodes.watch)
        return RouterLeaf(leaf.number, str(leaf), served_here, nodes, watching, cluster.producer_id_tag)

    def _without_share_fetch(self, apis: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, tuple[int, int]]:
        """Returns the APIs without ShareFetch if interceptors see fetched records: share consumers would get what
        interceptors hide from others."""
        if not intercepts_fetch(self._configured, self._services.interceptors, self._services.routers):
            return apis
        return {key: versions for key, versions in apis.items() if key is not ApiKey.SHARE_FETCH}

    def _place_of_node(self, leaf: LeafNumber, node: int) -> tuple[str, int] | None:
        try:
            return self._place_of(self.ids.virtual(leaf, node))
        except NodeIdTooLarge:
            return None

    def _nodes_checked(self, health: NodeHealth, undeclared: frozenset[int]) -> None:
        health.update({FIRST: undeclared})
        leaves = [leaf for runtime, _ in self._made for leaf in runtime.leaves]
        tags = {leaf.nodes.cluster: leaf.tag for leaf in leaves if leaf.tag is not None}
        if (colliding_tags := equal_tags(tags)) != self._colliding_tags:
            self._colliding_tags = colliding_tags
            for one, other in colliding_tags:
                log.error(
                    "producer ids of two clusters collide: give one of them a producer_id_tag",
                    virtual_cluster=self._name,
                    cluster=one,
                    other=other,
                )


def ports_of(configured: VirtualClusterConfig, graph: Graph) -> dict[int, int]:
    """Returns the ports of the declared nodes, by the ids that clients see."""
    if not isinstance(configured.nodes, NodesConfig):
        return {}
    if isinstance(configured.target, RelayTargetConfig):
        return configured.nodes.port_of()
    return ports_of_nodes(configured.nodes, graph)


def places_of(configured: VirtualClusterConfig, graph: Graph) -> tuple[NodeOf, AdvertisedAddress]:
    (listener,) = configured.all_listeners()
    if configured.is_one_node:
        place = listener.advertised.host, listener.advertised.port
        return lambda _: None, lambda _: place
    return places(listener, ports_of(configured, graph))
