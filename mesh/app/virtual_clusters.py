"""The virtual clusters of a process. Each is built from the configuration, listens, and may change or end while the
others continue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.to_thread import run_sync

from mesh.app.addresses import Addresses
from mesh.app.clusters import UpstreamClusters
from mesh.app.configured_target import ChangedConfig, ConfiguredTarget, Services
from mesh.app.from_config import limits_of
from mesh.app.prepared import Prepared, close_all, set_up_listeners
from mesh.app.target_parts import TargetParts
from mesh.app.targets import addresses_of, make, make_parts, moves_behind, pools_of, topologies_behind
from mesh.config.interceptors import InterceptorConfig, InterceptorWorkersConfig
from mesh.config.listeners import ListenerName
from mesh.config.mistakes import format_path
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.config.values import Address
from mesh.listener.limits import ConnectionLimiter, Descriptors
from mesh.listener.listener import Listener
from mesh.listener.listener_setup import ListenerSetup
from mesh.listener.security import ListenerSecurity
from mesh.listener.target import Target
from mesh.listener.watched_files import Watched
from mesh.memory import MemoryBudget
from mesh.pool.apis.context import Endpoint
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.topologies.topologies import Topologies
from mesh.tasks import GuardedSteps, OwnedTask, TaskName, Tasks
from mesh.telemetry.journal import DeliveryLog
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.store.store import Store

if TYPE_CHECKING:
    from mesh.security.oauthbearer import TokenKeys

log = get_logger(__name__)

ServedAs: TypeAlias = tuple[int | None, ListenerName, bool]
"""The use of an address: the node's id in Metadata, or None; the listener; and whether connections begin with TLS."""


Elsewhere: TypeAlias = Callable[[str], Endpoint | None]
"""Returns the endpoint of another process that serves a virtual cluster; None if there is none."""


@dataclass(slots=True, eq=False)
class Running:
    """A running virtual cluster. keys: the scope of the task that fetches the keys of its tokens, if there is one."""

    configured: VirtualClusterConfig
    setup: ListenerSetup
    configured_target: ConfiguredTarget
    listening: dict[Address, ServedAs] = field(default_factory=dict)
    keys: anyio.CancelScope | None = None

    @property
    def target(self) -> Target:
        return self.configured_target.target


class VirtualClusters:
    """The virtual clusters of the process. targets: those of all running ones, in the order of the configuration; it
    stays the same list. watched: the watched files; it stays the same list, too."""

    def __init__(
        self,
        metrics: Metrics,
        memory: MemoryBudget,
        descriptors: Descriptors,
        upstream_health: UpstreamHealth,
        journal: DeliveryLog | None,
        batch_every: int,
        store: Store | None,
        task_health: TaskHealth,
    ) -> None:
        self._task_health = task_health
        self._journal = journal
        self._batch_every = batch_every
        self._store = store
        self._metrics = metrics
        self._memory = memory
        self._descriptors = descriptors
        self._upstream_health = upstream_health
        self._routers: Sequence[RouterConfig] = ()
        self._interceptors: Sequence[InterceptorConfig] = ()
        self._interceptor_workers = InterceptorWorkersConfig()
        self._running: dict[str, Running] = {}
        self._addresses = Addresses()
        self.targets: list[Target] = []
        self.watched: list[Watched[Any]] = []
        self._token_keys: dict[str, TokenKeys] = {}
        """The keys that were fetched last, by URL. A listener that is set up again uses them while the issuer is
        away."""

    def pass_on_topics(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for running in self._running.values():
            running.configured_target.topics_changed(cluster, topics)

    def pools(self) -> list[PoolRuntime]:
        """Returns all pools: those that are a virtual cluster's target, and those behind routes."""
        return [pool for target in self.targets for pool in pools_of(target)]

    def single_pools(self) -> list[PoolRuntime]:
        """Returns the pools that are a virtual cluster's target."""
        return [target for target in self.targets if isinstance(target, PoolRuntime)]

    def topologies(self) -> list[Topologies]:
        """Returns the topologies of the virtual clusters that serve topology descriptions."""
        return [each for target in self.targets for each in topologies_behind(target)]

    def moves(self) -> list[Moves]:
        """Returns the moves of all virtual clusters whose topics may be moved."""
        return [each for target in self.targets if (each := moves_behind(target)) is not None]

    def waiting(self) -> list[str]:
        """Returns the virtual clusters whose clients wait until the clusters of moved topics are known."""
        return [each.name for each in self.moves() if not each.gate.is_known]

    # Checks before a start or a change

    async def make_parts(self, config: Config, names: Collection[str]) -> dict[str, TargetParts]:
        """Makes the parts of the virtual clusters with these names, in a thread. Raises ConfigurationError if a part
        cannot be made; then none is left."""
        made: dict[str, TargetParts] = {}
        try:
            for configured in config.virtual_clusters:
                if configured.name in names:
                    parts = made[configured.name] = TargetParts(configured.name)
                    await run_sync(make_parts, parts, configured, config, self._store, abandon_on_cancel=True)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await close_all(made)
            raise
        return made

    async def prepare(self, config: Config, names: Collection[str], parts: Mapping[str, TargetParts]) -> Prepared:
        """Prepares the virtual clusters with these names. parts: from `make_parts`. Raises ConfigurationError like
        `set_up_listeners`, and also if an address is not free. Raises OSError if no descriptor is left. Then it keeps
        nothing new."""
        # In a thread, since keys of passwords take milliseconds each.
        setups = await run_sync(set_up_listeners, config, names, abandon_on_cancel=True)
        bound = await self._addresses.prepare(config, names)
        return Prepared(setups, bound, parts, config.routers, config.interceptors, config.interceptor_workers)

    def take_over(self, prepared: Prepared) -> None:
        """Takes over what was prepared: its addresses, routers and interceptors are the current ones from now on."""
        self._addresses.take_over(prepared.bound)
        self._routers = prepared.routers
        self._interceptors, self._interceptor_workers = prepared.interceptors, prepared.interceptor_workers

    async def release(self, prepared: Prepared) -> None:
        """Gives back prepared resources that a change did not need."""
        self._addresses.release()
        await close_all(prepared.parts)

    # Start

    def build(
        self,
        configured: VirtualClusterConfig,
        prepared: Prepared,
        clusters: UpstreamClusters,
        tasks: Tasks,
    ) -> Running:
        """Builds a virtual cluster that does not listen yet. Raises RuntimeError if an earlier one has not ended."""
        if configured.name in self._running:
            raise RuntimeError("the virtual cluster has not ended")
        setup = prepared.setups[configured.name]
        limiter = ConnectionLimiter(limits_of(configured.limits), self._descriptors, self._memory)
        listener = Listener(configured.name, self._metrics, setup.security, limiter)
        services = Services(
            clusters,
            self._memory,
            self._upstream_health,
            self._journal,
            self._batch_every,
            self._store,
            self._routers,
            self._interceptors,
            self._interceptor_workers,
            prepared.parts[configured.name],
        )
        running = Running(configured, setup, make(configured, listener, services))
        self._running[configured.name] = running
        self._metrics.add_collector(running.configured_target.samples)
        self.targets.append(running.target)
        self._secure(running, setup, tasks)
        return running

    async def serve(self, running: Running, tasks: Tasks) -> None:
        """Listens at the configured addresses, and at no others."""
        configured, security = running.configured, running.target.listener.security
        addresses = addresses_of(configured, self._routers)
        wanted: dict[Address, ServedAs] = {
            each.address: (each.node, each.listener, security.tls_of(each.listener) is not None) for each in addresses
        }
        for address, served in list(running.listening.items()):
            if wanted.get(address) != served:
                self._addresses[address].pause(running.target)
                del running.listening[address]
        for path, address, node, listener, is_common in addresses:
            if is_common:
                self._addresses.serves_all(address)
            if address not in running.listening:
                await self._addresses[address].serve(running.target, node, listener, tasks)
                running.listening[address] = wanted[address]
                level, role = log.debug if path[-1] == "nodes" else log.info, format_path(path)
                level("listening", virtual_cluster=configured.name, role=role, address=str(address))

    # Change

    def clusters_to_leave(
        self, wanted: ChangedConfig, reconnected: Collection[ClusterName]
    ) -> frozenset[ClusterName] | None:
        """Returns the clusters that a virtual cluster must leave, at least for a while, if this configuration applies
        and the clusters in `reconnected` get new connections. None if the virtual cluster must start again."""
        return self._running[wanted.configured.name].configured_target.clusters_to_leave(wanted, reconnected)

    async def look_at_files(self) -> None:
        """Reads changed files again."""
        for watched in tuple(self.watched):
            await watched.check(self.file_failed)

    def file_failed(self, problem: BaseException) -> None:
        """Reports an exception of a watched file that is a bug."""
        self._task_health.failed(OwnedTask(TaskName.WATCHED_FILES), problem, None)

    async def leave(self, name: str, cluster: ClusterName, grace: float) -> None:
        await self._running[name].configured_target.leave(cluster, grace)

    async def change(
        self,
        wanted: ChangedConfig,
        setup: ListenerSetup | None,
        left: Iterable[ClusterName],
        grace: float,
        tasks: Tasks,
    ) -> None:
        """Applies a changed configuration. setup: None if its security has not changed. left: the clusters that
        `clusters_to_leave` returned before. grace: seconds that members have to commit."""
        configured = wanted.configured
        running = self._running[configured.name]
        running.configured = configured
        running.target.listener.change_limits(limits_of(configured.limits))
        if setup is not None:
            self._secure(running, setup, tasks)
            running.target.listener.rules_changed()
        running.configured_target.change(wanted, left, grace)
        await self.serve(running, tasks)

    def rearrange(self, config: Config) -> None:
        """Sorts the targets as in the configuration, and closes addresses that it does not name."""
        order = [each.name for each in config.virtual_clusters]
        self.targets.sort(key=lambda target: order.index(target.name))
        self._addresses.keep_only(config)

    # Stop

    async def stop(
        self,
        names: Collection[str],
        grace: float,
        guard: GuardedSteps,
        elsewhere: Elsewhere,
    ) -> None:
        """Stops these virtual clusters, all at once. Members commit what they hold. Then each stops accepting, answers
        waiting requests, commits, and leaves the upstream groups. A step that fails at one virtual cluster keeps no
        other step from running.

        guard: runs the steps. elsewhere: clients are led there first.
        """
        stopped = [(OwnedTask(TaskName.STOP, name), self._running[name]) for name in names]
        for task, running in stopped:
            with guard.step(task):
                running.target.begin_stop(grace)
        async with anyio.create_task_group() as draining:
            for task, running in stopped:
                draining.start_soon(guard.attempt, task, running.target.drained)
        async with anyio.create_task_group() as leading:
            for task, running in stopped:
                leading.start_soon(guard.attempt, task, partial(_lead_away, running.target, elsewhere))
        for task, running in stopped:
            with guard.step(task):
                for address in running.listening:
                    self._addresses[address].pause(running.target)
                running.target.drain()
            with guard.step(task):
                running.target.close_connections()
        async with anyio.create_task_group() as closing:
            for task, running in stopped:
                closing.start_soon(guard.attempt, task, partial(self._closed, running))

    def leave_common_addresses(self) -> None:
        """As `Addresses.leave_common`."""
        self._addresses.leave_common()

    def names(self) -> list[str]:
        return list(self._running)

    def close(self) -> None:
        """Closes all addresses. Raises the last error if some cannot be closed."""
        self._addresses.close()

    async def _closed(self, running: Running) -> None:
        try:
            await running.target.closed()
        finally:
            self._forget(running)

    def _forget(self, running: Running) -> None:
        self.targets.remove(running.target)
        del self._running[running.configured.name]
        self._metrics.remove_collector(running.configured_target.samples)
        self._unwatch(running)
        running.configured_target.close()

    def _secure(self, running: Running, setup: ListenerSetup, tasks: Tasks) -> None:
        self._unwatch(running)
        if running.setup is not setup:
            running.setup.security = ListenerSecurity()  # the old setup may still be reading a file
        setup.take_over(running.target.listener.security)
        running.setup = setup
        setup.rules_changed = running.target.listener.rules_changed
        self.watched += setup.watched
        if setup.key_source is not None:
            if (keys := self._token_keys.get(setup.key_source.url)) is not None:
                setup.key_source.take_keys(keys)
            running.keys = anyio.CancelScope()
            task = OwnedTask(TaskName.TOKEN_KEYS, running.configured.name)
            keep = partial(tasks.keep_running, task, setup.key_source.keep_fresh)
            tasks.start(task, partial(_within, running.keys, keep))

    def _unwatch(self, running: Running) -> None:
        gone = running.setup.watched
        self.watched[:] = [each for each in self.watched if each not in gone]
        if (source := running.setup.key_source) is not None and source.keys is not None:
            self._token_keys[source.url] = source.keys
        if running.keys is not None:
            running.keys.cancel()
            running.keys = None


def nowhere(_: str) -> None:
    """The `Elsewhere` of a stop from which clients are led nowhere."""


async def _lead_away(target: Target, elsewhere: Elsewhere) -> None:
    """Leads clients to another process, if there is one."""
    if isinstance(target, PoolRuntime) and (endpoint := elsewhere(target.name)) is not None:
        log.info("clients led to another process", virtual_cluster=target.name, address=str(endpoint.broker))
        await target.move_clients_to(endpoint)


async def _within(scope: anyio.CancelScope, run: Callable[[], Any]) -> None:
    with scope:
        await run()
