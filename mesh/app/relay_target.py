"""A relay as it is configured."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from mesh.app.configured_target import ListenAddress, Services
from mesh.app.from_config import has_credentials, refused_apis
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.config.relay import RelayAuthentication, RelayConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.listener.tls import requested_name
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.relay_samples import samples_of
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.telemetry.metric_definitions import Sample
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.problems import UpstreamProblem
from mesh.wire.apis import ApiKey


def addresses_of_relay(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """One that stands for any node, and one for each declared node; with `hosts` all nodes share the first."""
    ports = configured.nodes.port_of() if configured.nodes is not None else {}
    host = configured.listen.host
    nodes = [ListenAddress("nodes", Address(host, port), node) for node, port in ports.items()]
    return (ListenAddress("listen", configured.listen, None), *nodes)


class RelayTarget:
    """A relay as it is configured. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(
        self, configured: VirtualClusterConfig, relay: RelayConfig, listener: Listener, services: Services
    ) -> None:
        self._clusters = services.clusters
        self._cluster = relay.cluster
        self._node_of, place_of = _places(configured)
        self._health = _NodeHealth(services.upstream_health, relay.cluster, configured.name)
        cluster, access = services.clusters.access(relay.cluster)
        self._has_credentials = has_credentials(cluster, access)
        interval = services.clusters.interval
        servers = cluster.bootstrap_servers
        nodes = RelayNodes(relay.cluster, servers, access, place_of, interval, self._health.looked)
        self.target = RelayRuntime(
            listener,
            nodes,
            self._refused(relay),
            lambda transport: self._node_of(transport),
            is_bare=relay.authentication is RelayAuthentication.UPSTREAM,
        )

    def _refused(self, relay: RelayConfig) -> frozenset[ApiKey]:
        return frozenset(refused_apis(relay, has_credentials=self._has_credentials))

    def samples(self) -> Iterator[Sample]:
        return samples_of(self.target)

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        """A relay asks nobody which topics there are."""

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        return None if self._cluster in anew else frozenset()

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        raise AssertionError("a relay that leaves its cluster begins anew")

    def change(self, configured: VirtualClusterConfig, left: Iterable[ClusterName], grace: float) -> None:
        assert isinstance(configured.target, RelayTargetConfig), "another kind of target begins anew"
        self._node_of, self.target.nodes.place_of = _places(configured)
        self.target.nodes.interval = self._clusters.interval
        self.target.refuse(self._refused(configured.target.relay))


class _NodeHealth:
    """What an operator is told of the nodes of a relay."""

    def __init__(self, upstream_health: UpstreamHealth, cluster: str, virtual_cluster: str) -> None:
        self._upstream_health = upstream_health
        self._cluster = cluster
        self._virtual_cluster = virtual_cluster
        self._undeclared: frozenset[int] = frozenset()

    def looked(self, undeclared: frozenset[int]) -> None:
        problem = UpstreamProblem.NODE_WITHOUT_ADDRESS
        if undeclared:
            reason = f"no address is declared for {', '.join(map(str, sorted(undeclared)))}: see nodes.ids"
            self._upstream_health.begin(
                problem,
                self._cluster,
                reason,
                virtual_cluster=self._virtual_cluster,
                is_news=undeclared != self._undeclared,
            )
        elif self._undeclared:
            self._upstream_health.end(problem, self._cluster, virtual_cluster=self._virtual_cluster)
        self._undeclared = undeclared


def _places(
    configured: VirtualClusterConfig,
) -> tuple[Callable[[asyncio.BaseTransport], int | None], Callable[[int], tuple[str, int] | None]]:
    """The node that a client named in TLS, and where clients reach each node."""
    nodes, advertised = configured.nodes, configured.advertised_listen
    if nodes is None or nodes.hosts is None:
        ports = nodes.port_of() if nodes is not None else {}
        return lambda _: None, lambda node: (advertised.host, ports[node]) if node in ports else None
    before, _, after = nodes.hosts.partition("{node}")
    named = re.compile(re.escape(before) + "([0-9]{1,10})" + re.escape(after), re.IGNORECASE)

    def node_of(transport: asyncio.BaseTransport) -> int | None:
        found = named.fullmatch(requested_name(transport) or "")
        return int(found[1]) if found is not None else None

    return node_of, lambda node: (f"{before}{node}{after}", advertised.port)
