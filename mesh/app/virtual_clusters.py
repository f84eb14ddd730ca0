"""The virtual clusters of a process: each is built from the configuration, listens, and may change or end while the
others go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.abc

from mesh.app.clusters import Clusters
from mesh.app.configured_target import ConfiguredTarget, Services, Wanted
from mesh.app.from_config import limits_of
from mesh.app.interception import try_interceptors
from mesh.app.targets import addresses_of, make, pools_of, topologies_behind, try_routers
from mesh.config.interceptors import InterceptorConfig, InterceptorWorkersConfig
from mesh.config.listeners import ListenerName
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake, format_path
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.config.values import Address
from mesh.listener.bound_address import BoundAddress
from mesh.listener.limits import Descriptors, Gate
from mesh.listener.listener import Listener
from mesh.listener.listener_setup import ListenerSetup
from mesh.listener.security import ListenerSecurity
from mesh.listener.target import Target
from mesh.listener.watched_files import Watched
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.topologies.topologies import Topologies
from mesh.telemetry.journal import Journal
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.store.store import Store

log = get_logger(__name__)

ServedAs: TypeAlias = tuple[int | None, ListenerName, bool]
"""What an address stands for: a node as Metadata calls it, or None; a listener; whether connections begin with TLS."""


@dataclass(slots=True, eq=False)
class Running:
    """A virtual cluster at work. keys: the task that fetches the keys of its tokens, if there are any."""

    configured: VirtualClusterConfig
    setup: ListenerSetup
    configured_target: ConfiguredTarget
    listening: dict[Address, ServedAs] = field(default_factory=dict)
    keys: anyio.CancelScope | None = None

    @property
    def target(self) -> Target:
        return self.configured_target.target


@dataclass(frozen=True, slots=True)
class Prepared:
    """The resources that a configuration needs and may not get, by the names of its virtual clusters: files that can be
    used, and addresses that are free."""

    setups: Mapping[str, ListenerSetup]
    bound: Mapping[Address, BoundAddress]
    routers: Sequence[RouterConfig]
    interceptors: Sequence[InterceptorConfig]
    interceptor_workers: InterceptorWorkersConfig


class VirtualClusters:
    """The virtual clusters of the process. targets: of all that are at work, in the order of the configuration; the
    same list for as long as the process runs. watched: their files, likewise."""

    def __init__(
        self,
        metrics: Metrics,
        memory: MemoryBudget,
        descriptors: Descriptors,
        upstream_health: UpstreamHealth,
        journal: Journal | None,
        store: Store | None,
    ) -> None:
        self._journal = journal
        self._store = store
        self._metrics = metrics
        self._memory = memory
        self._descriptors = descriptors
        self._upstream_health = upstream_health
        self._routers: Sequence[RouterConfig] = ()
        self._interceptors: Sequence[InterceptorConfig] = ()
        self._interceptor_workers = InterceptorWorkersConfig()
        self._running: dict[str, Running] = {}
        self._addresses: dict[Address, BoundAddress] = {}
        self.targets: list[Target] = []
        self.watched: list[Watched[Any]] = []

    def tell_topics(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for running in self._running.values():
            running.configured_target.topics_changed(cluster, topics)

    def pools(self) -> list[PoolRuntime]:
        """Of the virtual clusters that lead to one."""
        return [pool for target in self.targets for pool in pools_of(target)]

    def topologies(self) -> list[Topologies]:
        """Of the virtual clusters that serve topology descriptions."""
        return [each for target in self.targets if (each := topologies_behind(target)) is not None]

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
        """The same, also if an address is not free, or a router or an interceptor cannot begin; then none is kept that
        was not there before."""
        for configured in config.virtual_clusters:
            if configured.name in names:
                try_routers(configured, config.routers)
                try_interceptors(configured, config.interceptors, config.routers)
        setups, bound = self.set_up(config, names), await self._bind_all(config)
        return Prepared(setups, bound, config.routers, config.interceptors, config.interceptor_workers)

    def admit(self, prepared: Prepared) -> None:
        """Its addresses are ours from now on, and its routers lead somewhere."""
        self._addresses |= prepared.bound
        self._routers = prepared.routers
        self._interceptors, self._interceptor_workers = prepared.interceptors, prepared.interceptor_workers

    async def _bind_all(self, config: Config) -> dict[Address, BoundAddress]:
        bound: dict[Address, BoundAddress] = {}
        try:
            for index, each in enumerate(config.virtual_clusters):
                for path, address, _, _ in addresses_of(each, config.routers):
                    if address not in self._addresses:
                        bound[address] = await _bind(address, ("virtual_clusters", index, *path))
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
        gate = Gate(limits_of(configured.limits), self._descriptors, self._memory)
        listener = Listener(configured.name, self._metrics, setup.security, gate)
        services = Services(
            clusters,
            self._memory,
            self._upstream_health,
            self._journal,
            self._store,
            self._routers,
            self._interceptors,
            self._interceptor_workers,
        )
        running = Running(configured, setup, make(configured, listener, services))
        self._running[configured.name] = running
        self._metrics.add_collector(running.configured_target.samples)
        self.targets.append(running.target)
        self._secure(running, setup, tasks)
        return running

    async def serve(self, running: Running, tasks: anyio.abc.TaskGroup) -> None:
        """At every address that it is configured with, and at no other."""
        configured, security = running.configured, running.target.listener.security
        addresses = addresses_of(configured, self._routers)
        wanted: dict[Address, ServedAs] = {
            each.address: (each.node, each.listener, security.tls_of(each.listener) is not None) for each in addresses
        }
        for address, served in list(running.listening.items()):
            if wanted.get(address) != served:
                self._addresses[address].pause()
                del running.listening[address]
        for path, address, node, listener in addresses:
            if address not in running.listening:
                await self._addresses[address].serve(running.target, node, listener, tasks)
                running.listening[address] = wanted[address]
                level, role = log.debug if path[-1] == "nodes" else log.info, format_path(path)
                level("listening", virtual_cluster=configured.name, role=role, address=str(address))

    # Change

    def left_by(self, configured: VirtualClusterConfig, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        """Which clusters a virtual cluster has to leave, perhaps to come back, when it changes to this and those are
        connected to anew; None if it has to begin anew itself."""
        return self._running[configured.name].configured_target.left_by(Wanted(configured, self._routers), anew)

    async def look_at_files(self) -> None:
        """Read those again that have changed."""
        for watched in tuple(self.watched):
            await watched.look()

    async def leave(self, name: str, cluster: ClusterName, grace: float) -> None:
        await self._running[name].configured_target.leave(cluster, grace)

    async def change(
        self,
        configured: VirtualClusterConfig,
        setup: ListenerSetup | None,
        left: Iterable[ClusterName],
        grace: float,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """setup: None where nothing about its security has changed. left: clusters that were left before."""
        running = self._running[configured.name]
        running.configured = configured
        running.target.listener.change_limits(limits_of(configured.limits))
        if setup is not None:
            self._secure(running, setup, tasks)
            running.target.listener.rules_changed()
        running.configured_target.change(Wanted(configured, self._routers), left, grace)
        await self.serve(running, tasks)

    def rearrange(self, config: Config) -> None:
        """Everything in the order of the configuration, and no address that it does not name."""
        order = [each.name for each in config.virtual_clusters]
        self.targets.sort(key=lambda target: order.index(target.name))
        wanted = {one.address for each in config.virtual_clusters for one in addresses_of(each, config.routers)}
        for address in [address for address in self._addresses if address not in wanted]:
            self._addresses.pop(address).close()

    # End

    async def stop(self, names: Collection[str], grace: float) -> None:
        """Let members commit what they hold; then stop accepting, answer what waits, commit, leave upstream."""
        stopped = [self._running[name] for name in names]
        for running in stopped:
            running.target.begin_stop(grace)
        for running in stopped:
            await running.target.drained()
        for running in stopped:
            for address in running.listening:
                self._addresses[address].pause()
            running.target.drain()
            running.target.close_connections()
        for running in stopped:
            await running.target.closed()
            self._forget(running)

    def names(self) -> list[str]:
        return list(self._running)

    def close(self) -> None:
        for listening in self._addresses.values():
            listening.close()

    def _forget(self, running: Running) -> None:
        self._metrics.remove_collector(running.configured_target.samples)
        self._unwatch(running)
        running.configured_target.close()
        self.targets.remove(running.target)
        del self._running[running.configured.name]

    def _secure(self, running: Running, setup: ListenerSetup, tasks: anyio.abc.TaskGroup) -> None:
        self._unwatch(running)
        if running.setup is not setup:
            running.setup.security = ListenerSecurity()  # it may be reading a file just now
        setup.take_over(running.target.listener.security)
        running.setup = setup
        setup.rules_changed = running.target.listener.rules_changed
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
