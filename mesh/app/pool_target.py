"""The target of a pool, built from the configuration."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from mesh.app.configured_target import ChangedConfig, ListenAddress, Services
from mesh.app.from_config import clusters_of, rules_of, settings_of, sharing_of, topics_of
from mesh.app.interception import ConfiguredInterceptors
from mesh.config.model import PoolTargetConfig, VirtualClusterConfig
from mesh.config.pool import PoolConfig
from mesh.config.relay import NodesConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.pool.apis.context import FIRST_NODES, AdvertisedNode, Endpoint, HostAndPort, NodePair, further_node_at
from mesh.pool.common.ids import GroupId
from mesh.pool.core import PoolCore
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.names import Path
from mesh.runtime.pool.administration import UpstreamAdministration
from mesh.runtime.pool.dead_letters import DeadLetterForwarder, WriteDeadLetter, no_dead_letters
from mesh.runtime.pool.intercepted_engine import InterceptedEngine
from mesh.runtime.pool.pool_samples import samples_of
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.pool.share_groups import ShareGroups
from mesh.telemetry.metric_definitions import MetricSample
from mesh.upstream.engine import Engine, EngineEvent


def addresses_of_pool(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """Returns the addresses of a pool: of its broker, of its coordinator, and of further nodes, if it has some.

    The coordinator has its own address, because some clients would let heartbeats wait behind a Fetch. One of several
    processes has another address, which all processes share, and to which clients connect first.
    """
    nodes = _nodes_of(configured)
    own = (
        ListenAddress(("listen",), configured.listen, nodes.broker),
        ListenAddress(("coordinator",), configured.coordinator, nodes.coordinator),
        *(
            ListenAddress(("nodes",), Address(configured.listen.host, node.address.port), node.id)
            for node in _further_nodes(configured)
        ),
    )
    worker = configured.worker
    if worker is None or worker.bootstrap is None:
        return own
    return (*own, ListenAddress(("listen",), worker.bootstrap, None, is_common=True))


class PoolTarget:
    """A pool with its configuration. Implements `ConfiguredTarget`."""

    def __init__(
        self,
        configured: VirtualClusterConfig,
        pool: PoolConfig,
        listener: Listener,
        services: Services,
        interceptors: ConfiguredInterceptors,
        path: Path = (),
    ) -> None:
        """interceptors: those of everything behind the virtual cluster. path: the routes that lead to this pool."""
        self._configured = configured
        self._pool = pool
        self._clusters = clusters = services.clusters
        share_groups = ShareGroups(configured.name, services.store)
        core = PoolCore(
            configured.name,
            topics_of(configured.name, pool),
            rules_of(pool),
            settings_of(
                pool,
                time.time() - asyncio.get_running_loop().time(),
                services.journal is not None,
                services.batch_every,
            ),
            services.memory,
            random.Random(),
            share_groups,
        )
        for name, topics in clusters.known().items():
            core.topics_changed(name, topics, asyncio.get_running_loop().time())
        self._memory = services.memory
        self._interceptors = interceptors
        self._intake = interceptors.for_pool(path, core.topics.number)
        write_dead_letter: WriteDeadLetter = no_dead_letters
        if (dead := pool.dead_letters) is not None:
            writer = partial(clusters.writer, create=dead.create)
            write_dead_letter = DeadLetterForwarder(dead.topic, writer).write_dead_letter
        self.target = PoolRuntime(
            core,
            listener,
            _endpoint(configured),
            self._engine,
            lambda: clusters.refresh(clusters_of(self._pool)),
            services.upstream_health,
            self._administration(),
            share_groups,
            write_dead_letter,
            services.journal,
            pool.isolation.value,
            self._intake.sees if self._intake is not None else lambda _: False,
        )

    def samples(self) -> Iterator[MetricSample]:
        yield from samples_of(self.target)
        yield from self._interceptors.samples()

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        self.target.topics_changed(cluster, topics)

    def clusters_to_leave(
        self, wanted: ChangedConfig, reconnected: Collection[ClusterName]
    ) -> frozenset[ClusterName] | None:
        configured = wanted.configured
        pool = _pool_of(configured)
        difference = self.target.core.topics.compare(topics_of(configured.name, pool))
        used = clusters_of(self._pool) | clusters_of(pool)
        return None if difference.moves else difference.left | (used & frozenset(reconnected))

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        self.target.step(lambda core, now: core.leave_cluster(cluster, grace, now))
        await self.target.until(lambda: self.target.core.has_left(cluster))

    def close(self) -> None:
        self._interceptors.close()

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        configured = wanted.configured
        runtime, self._configured, self._pool = self.target, configured, _pool_of(configured)
        pool = self._pool
        runtime.change_endpoint(_endpoint(configured))
        runtime.tool_queries.change(self._administration())
        runtime.step(lambda core, now: core.change_rules(rules_of(pool), grace, now))
        runtime.step(lambda core, now: core.change_topics(topics_of(configured.name, pool), now))
        runtime.step(lambda core, now: core.change_sharing(sharing_of(pool), now))
        for name, topics in self._clusters.known().items():
            runtime.topics_changed(name, topics)
        for name in left:
            runtime.step(lambda core, now, name=name: core.rejoin_cluster(name, now))  # type: ignore[misc]

    def _engine(self, group: GroupId, name: ClusterName, deliver: Callable[[EngineEvent], None]) -> Engine:
        known = self.target.core.pools.get(group)
        is_share = known is not None and known.serving.has_share_members
        share = known.share_settings.value if known is not None and is_share else None

        def make(deliver: Callable[[EngineEvent], None]) -> Engine:
            return self._clusters.engine(self._configured.name, self._pool, name, group, deliver, share)

        if self._intake is None:
            return make(deliver)
        return InterceptedEngine(make, deliver, self._intake, group, self._memory)

    def _administration(self) -> UpstreamAdministration:
        pool = self._pool
        clusters = self._clusters
        properties = clusters.properties(clusters_of(pool))
        return UpstreamAdministration(properties, pool.upstream_group_prefix, clusters.settings_of)


def _pool_of(configured: VirtualClusterConfig) -> PoolConfig:
    assert isinstance(configured.target, PoolTargetConfig), "another kind of target starts again"
    return configured.target.pool


def _endpoint(configured: VirtualClusterConfig) -> Endpoint:
    listen, coordinator = configured.advertised_listen, configured.advertised_coordinator
    return Endpoint(
        f"kafka-mesh.{configured.name}",
        HostAndPort(listen.host, listen.port),
        HostAndPort(coordinator.host, coordinator.port),
        _nodes_of(configured),
        tuple(_further_nodes(configured)),
    )


def _nodes_of(configured: VirtualClusterConfig) -> NodePair:
    """Returns the nodes that clients see. Each process has its own ids, so that a client that is led to another process
    sees a new node and opens a connection to it."""
    if configured.has_peers:
        return NodePair.at(str(configured.advertised_listen))
    return NodePair.of(configured.worker.number if configured.worker is not None else 1)


def _further_nodes(configured: VirtualClusterConfig) -> Iterator[AdvertisedNode]:
    """Yields the nodes that lead partitions beside the first one. Their ids follow those of the pair; with peers they
    are made from the address."""
    nodes = configured.nodes
    if not isinstance(configured.target, PoolTargetConfig) or not isinstance(nodes, NodesConfig):
        return
    for index, port in enumerate(nodes.ports or ()):
        address = HostAndPort(configured.advertised_listen.host, port)
        first = FIRST_NODES.coordinator + 1 + index
        yield AdvertisedNode(further_node_at(str(address)) if configured.has_peers else first, address)
