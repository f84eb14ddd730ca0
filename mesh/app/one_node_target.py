"""The target of a cluster as one node, built from the configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from mesh.app.configured_target import ChangedConfig, LinkedTarget, ListenAddress, Services
from mesh.app.from_config import has_credentials, refused_apis
from mesh.app.interception import ConfiguredInterceptors, OneName
from mesh.config.listeners import FIRST, ConfiguredListener, ListenerName
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.config.relay import RelayConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName
from mesh.routing.one_node.rewriting import COORDINATOR, NODE, NodeEndpoint, VisibleNodes
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.one_node.one_node_samples import samples_of
from mesh.runtime.one_node.runtime import OneNodeRuntime
from mesh.runtime.relay.topic_metadata import metadata_of
from mesh.telemetry.metric_definitions import MetricSample
from mesh.wire.apis import ApiKey


def addresses_of_one_node(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """Returns the addresses of a cluster as one node: one for each listener, and one for the coordinator if the file
    has it. Some clients let heartbeats wait behind a Fetch on the same connection."""
    listeners = configured.all_listeners()
    nodes = tuple(ListenAddress((*each.path, "listen"), each.listen, NODE, each.name) for each in listeners)
    if not configured.has_coordinator:
        return nodes
    return *nodes, ListenAddress(("coordinator",), configured.coordinator, COORDINATOR)


class OneNodeTarget(LinkedTarget):
    """A cluster as one node. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, relay: RelayConfig, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._cluster = relay.cluster
        cluster, settings = services.clusters.cluster_with_settings(relay.cluster)
        self._has_credentials = has_credentials(cluster, settings)
        self._listeners = {each.name: each for each in configured.all_listeners()}
        shown = shown_of(configured)
        place = shown[FIRST].node.host, shown[FIRST].node.port
        servers, interval = cluster.bootstrap_servers, services.clusters.interval
        nodes = LeafNodes(
            relay.cluster, servers, settings, lambda _: place, interval, lambda _: self.target.drop_gone()
        )
        self._interceptors = ConfiguredInterceptors(configured, services)
        interceptors = self._interceptors.for_names(OneName(()), metadata_of(nodes))
        self.target = OneNodeRuntime(
            listener, nodes, shown, self._refused(relay), services.memory.requests, interceptors
        )

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._interceptors.samples()

    def close(self) -> None:
        self._interceptors.close()

    @property
    def linked(self) -> Collection[ClusterName]:
        return (self._cluster,)

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RelayTargetConfig), "another kind of target starts again"
        self.target.nodes.interval = self._clusters.interval
        before, self._listeners = self._listeners, {each.name: each for each in configured.all_listeners()}
        for name, was in before.items():
            if name != FIRST and (name not in self._listeners or _must_reconnect_clients(was, self._listeners[name])):
                self.target.end_listener(name, grace)
        self.target.change(shown_of(configured), self._refused(configured.target.relay))

    def _refused(self, relay: RelayConfig) -> frozenset[ApiKey]:
        return frozenset(refused_apis(relay, has_credentials=self._has_credentials))


def _must_reconnect_clients(before: ConfiguredListener, after: ConfiguredListener) -> bool:
    """Returns whether connected clients could not have connected to the changed listener in the same way."""
    return before.listen != after.listen or (before.tls is None) is not (after.tls is None)


def shown_of(configured: VirtualClusterConfig) -> Mapping[ListenerName, VisibleNodes]:
    """Returns the nodes that clients see in place of all brokers, at each listener."""
    shown = {}
    for each in configured.all_listeners():
        node = coordinator = NodeEndpoint(NODE, each.advertised.host, each.advertised.port)
        if configured.has_coordinator and each.name == FIRST:  # clients of other listeners may be unable to reach it
            address = configured.advertised_coordinator
            coordinator = NodeEndpoint(COORDINATOR, address.host, address.port)
        shown[each.name] = VisibleNodes(node, coordinator)
    return shown
