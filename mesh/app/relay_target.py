"""The target of a relay, built from the configuration."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from mesh.app.configured_target import ChangedConfig, LinkedTarget, ListenAddress, Services
from mesh.app.from_config import has_credentials, refused_apis
from mesh.app.interception import ConfiguredInterceptors, OneName, intercepts_fetch
from mesh.app.node_places import NodeHealth, places
from mesh.app.topologies import topologies_of
from mesh.config.listeners import FIRST, ConfiguredListener, ListenerName
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.config.relay import RelayAuthentication, RelayConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName
from mesh.runtime.relay.listener_addresses import AdvertisedAddress, NodeOf
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.relay_samples import samples_of
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.runtime.relay.topic_metadata import metadata_of
from mesh.runtime.topologies.topology_samples import samples_of as samples_of_topologies
from mesh.telemetry.metric_definitions import MetricSample
from mesh.wire.apis import ApiKey


def addresses_of_relay(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """Returns the addresses of each listener: one for any node, and one for each declared node. With `hosts` all nodes
    share the first one."""
    return tuple(itertools.chain.from_iterable(map(_addresses_of_listener, configured.all_listeners())))


def _addresses_of_listener(listener: ConfiguredListener) -> Iterator[ListenAddress]:
    yield ListenAddress((*listener.path, "listen"), listener.listen, None, listener.name)
    ports = listener.nodes.port_of() if listener.nodes is not None else {}
    for node, port in ports.items():
        yield ListenAddress((*listener.path, "nodes"), Address(listener.listen.host, port), node, listener.name)


class RelayTarget(LinkedTarget):
    """A relay with its configuration. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, relay: RelayConfig, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._cluster = relay.cluster
        self._listeners = {each.name: each for each in configured.all_listeners()}
        self._node_of, advertised_address = _places(self._listeners[FIRST])
        self._health = NodeHealth(services.upstream_health, relay.cluster, configured.name)
        cluster, settings = services.clusters.cluster_with_settings(relay.cluster)
        self._has_credentials = has_credentials(cluster, settings)
        self._interceptors = ConfiguredInterceptors(configured, services)
        self._is_intercepting_fetch = intercepts_fetch(configured, services.interceptors, ())
        interval = services.clusters.interval
        servers = cluster.bootstrap_servers
        nodes = RelayNodes(relay.cluster, servers, settings, advertised_address, interval, self._nodes_checked)
        self.target = RelayRuntime(
            listener,
            nodes,
            self._refused(relay),
            lambda transport: self._node_of(transport),
            passes_authentication=relay.authentication is RelayAuthentication.UPSTREAM,
            interceptors=self._interceptors.for_names(OneName(()), metadata_of(nodes)),
            topologies=topologies_of(configured, services),
        )
        for name, each in self._listeners.items():
            if name != FIRST:
                self._begin_listener(each)

    def _begin_listener(self, listener: ConfiguredListener) -> None:
        node_of, advertised_address = _places(listener)
        self.target.begin_listener(listener.name, advertised_address, node_of)

    def _nodes_checked(self, undeclared: frozenset[int]) -> None:
        further = {name: each.undeclared() for name, each in self.target.further.items()}
        self._health.update({FIRST: undeclared, **further})

    def _refused(self, relay: RelayConfig) -> frozenset[ApiKey]:
        refused = frozenset(refused_apis(relay, has_credentials=self._has_credentials))
        # Share consumers would get records that interceptors hide from other consumers.
        return refused | {ApiKey.SHARE_FETCH} if self._is_intercepting_fetch else refused

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._interceptors.samples()
        if self.target.topologies is not None:
            yield from samples_of_topologies(self.target.topologies)

    def close(self) -> None:
        self._interceptors.close()

    @property
    def linked(self) -> Collection[ClusterName]:
        return (self._cluster,)

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        assert isinstance(configured.target, RelayTargetConfig), "another kind of target starts again"
        self._change_listeners({each.name: each for each in configured.all_listeners()}, grace)
        self.target.nodes.interval = self._clusters.interval
        self.target.refuse(self._refused(configured.target.relay))

    def _change_listeners(self, listeners: Mapping[ListenerName, ConfiguredListener], grace: float) -> None:
        before, self._listeners = self._listeners, dict(listeners)
        self._node_of, self.target.nodes.advertised_address = _places(listeners[FIRST])
        for name, was in before.items():
            if name != FIRST and (name not in listeners or _must_reconnect_clients(was, listeners[name])):
                self.target.end_listener(name, grace)
        for name, each in listeners.items():
            if name != FIRST:
                self._begin_listener(each)


def _must_reconnect_clients(before: ConfiguredListener, after: ConfiguredListener) -> bool:
    """Returns whether connected clients could not have connected to the changed listener in the same way."""
    return (
        before.listen != after.listen
        or (before.tls is None) is not (after.tls is None)
        or _by_names(before) is not _by_names(after)
    )


def _by_names(listener: ConfiguredListener) -> bool:
    return listener.nodes is not None and listener.nodes.hosts is not None


def _places(listener: ConfiguredListener) -> tuple[NodeOf, AdvertisedAddress]:
    ports = listener.nodes.port_of() if listener.nodes is not None else {}
    return places(listener, ports)
