"""The virtual clusters of a process: each is built from the configuration, listens, and may change or end while the
others go on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.abc

from mesh.apis.api import Endpoint
from mesh.apis.api import HostAndPort as ApiAddress
from mesh.app.clusters import Clusters
from mesh.app.from_config import clusters_of, limits_of, rules_of, settings_of, topics_of
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.values import Address
from mesh.listener.bound_address import BoundAddress
from mesh.listener.limits import Descriptors, Gate
from mesh.listener.listener_setup import ListenerSetup
from mesh.listener.security import ListenerSecurity
from mesh.listener.watched_files import Watched
from mesh.memory import MemoryBudget
from mesh.pool.common.ids import GroupId
from mesh.pool.core import PoolCore
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.pool.administration import UpstreamAdministration
from mesh.runtime.pool.dead_letters import DeadLetterForwarder, WriteDeadLetter, no_dead_letters
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.pool.samples import samples_of
from mesh.telemetry.journal import Journal
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metric_definitions import Sample
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import Engine, EngineEvent

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Running:
    """A virtual cluster at work. keys: the task that fetches the keys of its tokens, if there are any."""

    configured: VirtualClusterConfig
    setup: ListenerSetup
    server: PoolRuntime
    collect: Callable[[], Iterable[Sample]]
    listening: list[BoundAddress] = field(default_factory=list)
    keys: anyio.CancelScope | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a configuration needs and may not get, by the names of its virtual clusters: files that can be used, and
    addresses that are free."""

    setups: Mapping[str, ListenerSetup]
    bound: Mapping[Address, BoundAddress]


class VirtualClusters:
    """servers: of all that are at work, in the order of the configuration; the same list for as long as the process
    runs. watched: their files, likewise."""

    def __init__(
        self,
        metrics: Metrics,
        memory: MemoryBudget,
        descriptors: Descriptors,
        upstream_health: UpstreamHealth,
        journal: Journal | None,
    ) -> None:
        self._journal = journal
        self._metrics = metrics
        self._memory = memory
        self._descriptors = descriptors
        self._upstream_health = upstream_health
        self._running: dict[str, Running] = {}
        self._addresses: dict[Address, BoundAddress] = {}
        self.servers: list[PoolRuntime] = []
        self.watched: list[Watched[Any]] = []

    def tell_topics(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for server in self.servers:
            server.topics_changed(cluster, topics)

    # Before something begins or changes

    def set_up(self, config: Config, names: Collection[str]) -> dict[str, ListenerSetup]:
        """Of the virtual clusters of these names. ConfigurationError with every mistake if files cannot be used."""
        setups: dict[str, ListenerSetup] = {}
        problems: list[Mistake] = []
        for index, configured in enumerate(config.virtual_clusters):
            if configured.name not in names:
                continue
            try:
                setups[configured.name] = ListenerSetup(configured, ("virtual_clusters", index))
            except ConfigurationError as problem:
                problems += problem.mistakes
        if problems:
            raise ConfigurationError(problems)
        return setups

    async def prepare(self, config: Config, names: Collection[str]) -> Prepared:
        """The same, also if an address is not free; then none is kept that was not there before."""
        return Prepared(self.set_up(config, names), await self._bind_all(config))

    def admit(self, prepared: Prepared) -> None:
        """Its addresses are ours from now on."""
        self._addresses |= prepared.bound

    async def _bind_all(self, config: Config) -> dict[Address, BoundAddress]:
        bound: dict[Address, BoundAddress] = {}
        try:
            for index, each in enumerate(config.virtual_clusters):
                for key, address in (("listen", each.listen), ("coordinator", each.coordinator)):
                    if address not in self._addresses:
                        bound[address] = await _bind(address, ("virtual_clusters", index, key))
        except ConfigurationError:
            for listening in bound.values():
                listening.close()
            raise
        return bound

    # Begin

    def build(
        self, configured: VirtualClusterConfig, setup: ListenerSetup, clusters: Clusters, tasks: anyio.abc.TaskGroup
    ) -> Running:
        """One that does not listen yet."""
        pool = configured.target.pool
        cluster = PoolCore(
            configured.name,
            topics_of(configured.name, pool),
            rules_of(pool),
            settings_of(pool, time.time() - asyncio.get_running_loop().time(), self._journal is not None),
            self._memory,
            random.Random(),
        )
        for name, topics in clusters.known().items():
            cluster.topics_changed(name, topics, asyncio.get_running_loop().time())

        def create(group: GroupId, name: ClusterName, deliver: Callable[[EngineEvent], None]) -> Engine:
            pool = running.configured.target.pool
            return clusters.engine(configured.name, pool, name, group, deliver)

        write_dead_letter: WriteDeadLetter = no_dead_letters
        if (dead := pool.dead_letters) is not None:
            write_dead_letter = DeadLetterForwarder(
                dead.topic, partial(clusters.writer, create=dead.create)
            ).write_dead_letter
        server = PoolRuntime(
            cluster,
            _endpoint(configured),
            self._metrics,
            create,
            lambda: clusters.refresh(clusters_of(running.configured.target.pool)),
            self._upstream_health,
            _administration(configured, clusters),
            write_dead_letter,
            self._journal,
            setup.security,
            gate=Gate(limits_of(configured.limits), self._descriptors, self._memory),
            isolation=pool.isolation.value,
        )
        running = self._running[configured.name] = Running(configured, setup, server, partial(samples_of, server))
        self._metrics.add_collector(running.collect)
        self.servers.append(server)
        self._secure(running, setup, tasks)
        return running

    async def serve(self, running: Running, tasks: anyio.abc.TaskGroup) -> None:
        configured = running.configured
        for role, address in (("listen", configured.listen), ("coordinator", configured.coordinator)):
            listening = self._addresses[address]
            await listening.serve(running.server, tasks)
            running.listening.append(listening)
            log.info("listening", virtual_cluster=configured.name, role=role, address=str(address))

    # Change

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        """Which clusters a virtual cluster has to leave, perhaps to come back, when it changes to this and those are
        connected to anew; None if it has to begin anew itself."""
        running = self._running[configured.name]
        difference = running.server.cluster.topics.compare(topics_of(configured.name, configured.target.pool))
        used = clusters_of(running.configured.target.pool) | clusters_of(configured.target.pool)
        return None if difference.moves else difference.left | (used & frozenset(anew))

    async def look_at_files(self) -> None:
        """Read those again that have changed."""
        for watched in tuple(self.watched):
            await watched.look()

    async def leave(self, name: str, cluster: ClusterName, grace: float) -> None:
        server = self._running[name].server
        server.step(lambda virtual_cluster, now: virtual_cluster.leave_cluster(cluster, grace, now))
        await server.until(lambda: server.cluster.has_left(cluster))

    def change(
        self,
        configured: VirtualClusterConfig,
        setup: ListenerSetup | None,
        left: Iterable[ClusterName],
        clusters: Clusters,
        grace: float,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """setup: None where nothing about its security has changed. left: clusters that were left before."""
        running = self._running[configured.name]
        server, pool, running.configured = running.server, configured.target.pool, configured
        server.change_endpoint(_endpoint(configured))
        server.change_limits(limits_of(configured.limits))
        server.questions.change(_administration(configured, clusters))
        if setup is not None:
            self._secure(running, setup, tasks)
            server.rules_changed()
        server.step(lambda cluster, now: cluster.change_rules(rules_of(pool), grace, now))
        server.step(lambda cluster, now: cluster.change_topics(topics_of(configured.name, pool), now))
        for name, topics in clusters.known().items():
            server.topics_changed(name, topics)
        for name in left:
            server.step(lambda cluster, now, name=name: cluster.come_back_to(name, now))  # type: ignore[misc]

    def rearrange(self, config: Config) -> None:
        """Everything in the order of the configuration, and no address that it does not name."""
        order = [each.name for each in config.virtual_clusters]
        self.servers.sort(key=lambda server: order.index(server.name))
        wanted = {address for each in config.virtual_clusters for address in (each.listen, each.coordinator)}
        for address in [address for address in self._addresses if address not in wanted]:
            self._addresses.pop(address).close()

    # End

    async def stop(self, names: Collection[str], grace: float) -> None:
        """Let members commit what they hold; then stop accepting, answer what waits, commit, leave upstream."""
        stopped = [self._running[name] for name in names]
        for running in stopped:
            running.server.begin_stop(grace)
        for running in stopped:
            await running.server.drained()
        for running in stopped:
            for listening in running.listening:
                listening.pause()
            running.server.drain()
            running.server.close_connections()
        for running in stopped:
            await running.server.engines.closed()
            self._forget(running)

    def names(self) -> list[str]:
        return list(self._running)

    def close(self) -> None:
        for listening in self._addresses.values():
            listening.close()

    def _forget(self, running: Running) -> None:
        self._metrics.remove_collector(running.collect)
        self._unwatch(running)
        self.servers.remove(running.server)
        del self._running[running.configured.name]

    def _secure(self, running: Running, setup: ListenerSetup, tasks: anyio.abc.TaskGroup) -> None:
        self._unwatch(running)
        if running.setup is not setup:
            running.setup.security = ListenerSecurity()  # it may be reading a file just now
        setup.take_over(running.server.security)
        running.setup = setup
        setup.rules_changed = running.server.rules_changed
        self.watched += setup.watched
        if setup.key_source is not None:
            running.keys = anyio.CancelScope()
            tasks.start_soon(_within, running.keys, setup.key_source.keep_fresh)

    def _unwatch(self, running: Running) -> None:
        gone = running.setup.watched
        self.watched[:] = [each for each in self.watched if each not in gone]
        if running.keys is not None:
            running.keys.cancel()
            running.keys = None


async def _within(scope: anyio.CancelScope, run: Callable[[], Any]) -> None:
    with scope:
        await run()


async def _bind(address: Address, path: KeyPath) -> BoundAddress:
    try:
        return await BoundAddress.bind(address)
    except OSError as problem:
        mistake = Mistake(path, str(address), f"an address that is free ({problem})")
        raise ConfigurationError([mistake]) from problem


def _endpoint(configured: VirtualClusterConfig) -> Endpoint:
    listen, coordinator = configured.advertised_listen, configured.advertised_coordinator
    return Endpoint(
        f"kafka-mesh.{configured.name}",
        ApiAddress(listen.host, listen.port),
        ApiAddress(coordinator.host, coordinator.port),
    )


def _administration(configured: VirtualClusterConfig, clusters: Clusters) -> UpstreamAdministration:
    pool = configured.target.pool
    return UpstreamAdministration(clusters.properties(clusters_of(pool)), pool.upstream_group_prefix)
