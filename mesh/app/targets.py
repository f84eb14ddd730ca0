"""From the configuration of a virtual cluster to its target, and how changes of it get there."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, assert_never

from mesh.app.clusters import Clusters
from mesh.app.from_config import clusters_of, rules_of, settings_of, topics_of
from mesh.config.model import PoolTargetConfig, VirtualClusterConfig
from mesh.config.values import Address
from mesh.listener.listener import Listener
from mesh.listener.target import Target
from mesh.memory import MemoryBudget
from mesh.pool.apis.context import BROKER_NODE, COORDINATOR_NODE, Endpoint, HostAndPort
from mesh.pool.common.ids import GroupId
from mesh.pool.core import PoolCore
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.pool.administration import UpstreamAdministration
from mesh.runtime.pool.dead_letters import DeadLetterForwarder, WriteDeadLetter, no_dead_letters
from mesh.runtime.pool.pool_samples import samples_of
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.journal import Journal
from mesh.telemetry.metric_definitions import Sample
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import Engine, EngineEvent


@dataclass(frozen=True, slots=True)
class Services:
    """What targets use of the process. journal: None where none is kept."""

    clusters: Clusters
    memory: MemoryBudget
    upstream_health: UpstreamHealth
    journal: Journal | None


class ConfiguredTarget(Protocol):
    """A target that may be configured otherwise while it runs."""

    @property
    def target(self) -> Target: ...

    def samples(self) -> Iterator[Sample]:
        """Its state, at the time of a scrape."""

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        """What an upstream cluster has now, each with its partitions."""

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        """Which clusters it has to leave, perhaps to come back, when it is configured so and those are connected to
        anew; None if it has to begin anew itself."""

    async def leave(self, cluster: ClusterName, grace: float) -> None: ...

    def change(self, configured: VirtualClusterConfig, left: Iterable[ClusterName], grace: float) -> None:
        """left: clusters that were left before. grace: seconds that members have to commit."""


class ListenAddress(NamedTuple):
    """An address that a virtual cluster listens on. key: of the configuration. node: as Metadata calls it; None for one
    that is no node's."""

    key: str
    address: Address
    node: int | None


def addresses_of(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """Those that its kind of target needs."""
    match configured.target:
        case PoolTargetConfig():
            return (
                ListenAddress("listen", configured.listen, BROKER_NODE),
                ListenAddress("coordinator", configured.coordinator, COORDINATOR_NODE),
            )
        case _:
            assert_never(configured.target)


def make(configured: VirtualClusterConfig, listener: Listener, services: Services) -> ConfiguredTarget:
    """The target that is configured; a configuration has exactly one."""
    match configured.target:
        case PoolTargetConfig():
            return PoolTarget(configured, listener, services)
        case _:
            assert_never(configured.target)


class PoolTarget:
    """A pool as it is configured. Implements `ConfiguredTarget`."""

    def __init__(self, configured: VirtualClusterConfig, listener: Listener, services: Services) -> None:
        self._configured = configured
        self._clusters = clusters = services.clusters
        pool = configured.target.pool
        core = PoolCore(
            configured.name,
            topics_of(configured.name, pool),
            rules_of(pool),
            settings_of(pool, time.time() - asyncio.get_running_loop().time(), services.journal is not None),
            services.memory,
            random.Random(),
        )
        for name, topics in clusters.known().items():
            core.topics_changed(name, topics, asyncio.get_running_loop().time())
        write_dead_letter: WriteDeadLetter = no_dead_letters
        if (dead := pool.dead_letters) is not None:
            writer = partial(clusters.writer, create=dead.create)
            write_dead_letter = DeadLetterForwarder(dead.topic, writer).write_dead_letter
        self.target = PoolRuntime(
            core,
            listener,
            _endpoint(configured),
            self._engine,
            lambda: clusters.refresh(clusters_of(self._configured.target.pool)),
            services.upstream_health,
            self._administration(),
            write_dead_letter,
            services.journal,
            pool.isolation.value,
        )

    def samples(self) -> Iterator[Sample]:
        return samples_of(self.target)

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        self.target.topics_changed(cluster, topics)

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        difference = self.target.core.topics.compare(topics_of(configured.name, configured.target.pool))
        used = clusters_of(self._configured.target.pool) | clusters_of(configured.target.pool)
        return None if difference.moves else difference.left | (used & frozenset(anew))

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        self.target.step(lambda core, now: core.leave_cluster(cluster, grace, now))
        await self.target.until(lambda: self.target.core.has_left(cluster))

    def change(self, configured: VirtualClusterConfig, left: Iterable[ClusterName], grace: float) -> None:
        runtime, pool, self._configured = self.target, configured.target.pool, configured
        runtime.change_endpoint(_endpoint(configured))
        runtime.tool_queries.change(self._administration())
        runtime.step(lambda core, now: core.change_rules(rules_of(pool), grace, now))
        runtime.step(lambda core, now: core.change_topics(topics_of(configured.name, pool), now))
        for name, topics in self._clusters.known().items():
            runtime.topics_changed(name, topics)
        for name in left:
            runtime.step(lambda core, now, name=name: core.come_back_to(name, now))  # type: ignore[misc]

    def _engine(self, group: GroupId, name: ClusterName, deliver: Callable[[EngineEvent], None]) -> Engine:
        configured = self._configured
        return self._clusters.engine(configured.name, configured.target.pool, name, group, deliver)

    def _administration(self) -> UpstreamAdministration:
        pool = self._configured.target.pool
        return UpstreamAdministration(self._clusters.properties(clusters_of(pool)), pool.upstream_group_prefix)


def _endpoint(configured: VirtualClusterConfig) -> Endpoint:
    listen, coordinator = configured.advertised_listen, configured.advertised_coordinator
    return Endpoint(
        f"kafka-mesh.{configured.name}",
        HostAndPort(listen.host, listen.port),
        HostAndPort(coordinator.host, coordinator.port),
    )
