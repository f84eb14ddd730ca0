"""Services shared by the connections to a cluster that clients see as one node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Final
from weakref import WeakSet

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.config.listeners import ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.guards.table import GUARDS
from mesh.routing.names import RouteName
from mesh.routing.node_ids import NodeIds
from mesh.routing.one_node.one_node_apis import SERVED_BY_ONE_NODE
from mesh.routing.one_node.rewriting import VisibleNodes
from mesh.routing.spi import Node, Router, Served
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.one_node.authorizing_router import AuthorizingRouter
from mesh.runtime.one_node.broker_links import BrokerLinks
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.runtime.one_node.requests import OneNodeRouter
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.request_router.services import RequestRouterServices, RouterKind
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.chunks import Chunks
from mesh.wire.apis import ApiKey
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.relayed_apis import ADVERTISED_APIS
from mesh.wire.transaction_levels import of_first_protocol
from mesh.wire.trees import read_views

_ROUTE: Final = RouteName("cluster")


class OneNodeServices(RequestRouterServices):
    """The services of the connections at one listener. They are those of a router by request, but have no routes.
    shown: the nodes that clients see. refused: APIs that are not served. Both may be replaced."""

    def __init__(
        self,
        listener: Listener,
        requests: Requests,
        nodes: LeafNodes,
        traffic: Traffic,
        cluster: OneNodeCluster,
        shown: VisibleNodes,
        refused: Collection[ApiKey],
        graceful_stop: GracefulStop,
        largest_request: Callable[[], int],
        memory: RequestMemory,
        interceptors: Interceptors | None,
    ) -> None:
        self.cluster: Final = cluster
        self.shown = shown
        self.refused = refused
        self._nodes: Final = nodes
        self._traffic: Final = traffic
        self._buffers: Final = ReceiveBuffers(0)
        self._links: Final[WeakSet[BrokerLinks]] = WeakSet()
        kind = RouterKind(self._make, {}, None, read_views)
        super().__init__(
            listener,
            requests,
            Chunks(),
            kind,
            {},
            NodeIds(()),
            graceful_stop,
            largest_request,
            lambda _: None,
            memory,
            interceptors,
        )

    def node(self, id: int) -> Node | None:
        return Node(_ROUTE, id)

    @property
    def handled(self) -> Served:
        handled = {key: each for key, each in SERVED_BY_ONE_NODE.items() if key not in self.refused}
        if self.listener.security.rules is not None:  # an API without a guard would be open to everybody
            handled = {key: each for key, each in handled.items() if key in GUARDS or key in LISTENER_TABLE}
        # With transaction.version 2 (KIP-890), a coordinator cannot be told of dropped records.
        is_dropping = self.interceptors is not None and self.interceptors.selection.may_drop_produced
        return of_first_protocol(handled) if is_dropping else handled

    @property
    def are_known(self) -> bool:
        return self._nodes.are_known

    async def wait_until_known(self) -> None:
        await self._nodes.wait_until_known()

    def features(self) -> Features:
        features = self._nodes.features
        return NO_FEATURES if features is None else features

    def served(self, limits: Served | None = None) -> Served:
        """The APIs that all brokers serve, with their versions. limits: the APIs and versions that are served at most;
        None for all that a relay serves."""
        advertised: Mapping[ApiKey, tuple[int, int]] = {
            key: (min(lowest, ADVERTISED_APIS[key][0]), highest) for key, (lowest, highest) in self.handled.items()
        }
        served = self._nodes.served_at(None, advertised if limits is None else limits)
        return {key: (each.lowest, each.highest) for key, each in served.items()}

    def drop_gone(self) -> None:
        """Fails requests that wait for brokers which the cluster no longer has."""
        for each in list(self._links):
            each.drop_gone()

    def for_listener(self, name: ListenerName) -> OneNodeServices:
        """A copy of these services for another listener."""
        other = copy(self)
        other.name, other.has_ended = name, False
        return other

    def router(self, client: ClientTransport) -> Router:
        router = self._make()
        if self.listener.security.rules is None:
            return router
        return AuthorizingRouter(router, client, self.cluster, self.listener)

    def _make(self) -> OneNodeRouter:
        links = BrokerLinks(
            self._nodes, self._traffic, self._buffers.allocate, self.listener.admission.count_broker_connections
        )
        self._links.add(links)
        return OneNodeRouter(self.cluster, links, self.shown)
