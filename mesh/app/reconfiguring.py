"""Applies a changed configuration to the running process: as a whole, or not at all.

First it reads and checks everything that may be wrong: the file, the files that it names, and new addresses. After a
mistake nothing changes. Then it leaves removed and reconnected parts in order, as at a stop: members commit what they
hold of them, and everything else continues. Then new parts start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
from anyio.to_thread import run_sync

from mesh.admin.http import AdminAccess
from mesh.admin.leases import LeaseApi
from mesh.app.clusters import UpstreamClusters, settings_for
from mesh.app.readiness import Readiness
from mesh.app.targets import linked_clusters
from mesh.app.virtual_clusters import Prepared, VirtualClusters
from mesh.config.changes import (
    Change,
    ClusterChanged,
    VirtualClusterAdded,
    VirtualClusterChanged,
    VirtualClusterRemoved,
    VirtualClusterRenewed,
    compare,
    fingerprint,
)
from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError
from mesh.config.model import Config
from mesh.config.warnings import warnings_of
from mesh.listener.listener_setup import AdminCertificate, admin_certificate
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName
from mesh.telemetry.logs import configure_logs, get_logger
from mesh.telemetry.metric_definitions import CONFIG_INFO, CONFIG_RELOAD_FAILED, CONFIG_RELOADED_SECONDS, MetricSample

log = get_logger(__name__)

_SECURITY = frozenset({"tls", "sasl", "authorization", "listeners"})


@dataclass(slots=True)
class AdminSetup:
    """The settings of the admin address. certificate: None without TLS."""

    access: AdminAccess
    leases: LeaseApi
    is_loopback: bool
    certificate: AdminCertificate | None

    def open(self, readiness: Readiness) -> None:
        """Allows reloads at the admin address: without a token only if no other machine can reach it."""
        self.leases.may_change = readiness.may_change = self.access.token is not None or self.is_loopback


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """The outcome of the last reload. at: seconds since 1970. problems: the reasons of a refusal."""

    state: Literal["started", "applying", "applied", "refused", "given up"]
    at: float
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The parts of the process that a changed configuration concerns.

    reconnected: clusters that get new connections. ended, begun: virtual clusters that stop, and those that start
    afterwards; one that restarts is in both. left: the clusters that each of the other virtual clusters leaves, at
    least for a while. changed: the changed keys of each virtual cluster whose clients stay connected.
    """

    reconnected: frozenset[ClusterName]
    ended: frozenset[str]
    begun: frozenset[str]
    left: Mapping[str, frozenset[ClusterName]]
    changed: Mapping[str, tuple[str, ...]]

    @property
    def concerned(self) -> frozenset[str]:
        """Returns the virtual clusters that are prepared, since they start or change."""
        return self.begun | self.changed.keys()


class Reconfiguring:
    """The reloading of the configuration: reads the file again, and changes the running process. config: the
    configuration that runs."""

    def __init__(
        self,
        config: Config,
        file: Path,
        memory: MemoryBudget,
        clusters: UpstreamClusters,
        virtual_clusters: VirtualClusters,
        worker: int = 1,
    ) -> None:
        """config: the configuration in the file at the start. worker: the number of this process among several, from
        1."""
        self.config = config.for_worker(worker)
        self.admin: AdminSetup | None = None
        self._file = file
        self._worker = worker
        self._memory = memory
        self._clusters = clusters
        self._virtual_clusters = virtual_clusters
        self._outcome = ReloadOutcome("started", time.time())
        self._since = self._outcome.at
        """The time at which the running configuration was read."""
        self._hash = fingerprint(config)
        self._lock = asyncio.Lock()
        self._scope: anyio.CancelScope | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._readiness: Readiness | None = None

    @property
    def grace(self) -> float:
        """Returns the seconds that members have to commit. The rest of the deadline is for leaving the upstream
        groups."""
        return min(self.config.drain_grace, self.config.drain_timeout * 0.6)

    def begin(self, tasks: anyio.abc.TaskGroup, readiness: Readiness) -> None:
        """Allows changes from now on, since clients are served. tasks: the task group of the process."""
        self._tasks, self._readiness = tasks, readiness

    async def end(self) -> None:
        """Ends changes when the process stops. A change in progress is cancelled where it is."""
        if self._scope is not None:
            self._scope.cancel()
        async with self._lock:
            self._tasks = None

    # Requests of operators

    def ask_soon(self) -> None:
        """Starts a change after a signal. A signal during the start or the stop is ignored; a change waits for the one
        before it."""
        if self._tasks is not None:
            self._tasks.start_soon(self.change)

    async def ask(self) -> tuple[int, dict[str, object]]:
        """Makes a change for a request, and answers when everything has changed. The change is completed even if the
        caller disconnects."""
        if self._tasks is None or self._lock.locked():
            return 409, {"problem": "the configuration is being changed already"}
        done = anyio.Event()

        async def change() -> None:
            try:
                await self.change()
            finally:
                done.set()

        self._tasks.start_soon(change)
        await done.wait()
        described = self.described()
        if self._outcome.state == "applied":
            return 200, described
        return 422, {**described, "problem": "; ".join(self._outcome.problems)}

    def described(self) -> dict[str, object]:
        outcome = self._outcome
        return {
            "file": str(self._file),
            "hash": self._hash,
            "state": outcome.state,
            "at": outcome.at,
            "changes": [str(change) for change in outcome.changes],
            "problems": list(outcome.problems),
        }

    def samples(self) -> Iterator[MetricSample]:
        """The samples for a scrape."""
        yield MetricSample(CONFIG_INFO, (self._hash,), 1)
        yield MetricSample(CONFIG_RELOAD_FAILED, (), self._outcome.state == "refused")
        yield MetricSample(CONFIG_RELOADED_SECONDS, (), self._since)

    # Internals

    async def change(self) -> None:
        """Reads the file, and applies all of it or nothing."""
        async with self._lock:
            if self._tasks is None:
                return
            try:
                await self._change(self._tasks)
            except ConfigurationError as problem:
                problems = tuple(map(str, problem.mistakes))
                self._outcome = ReloadOutcome("refused", time.time(), problems=problems)
                log.warning("configuration not reloaded", path=str(self._file), reason="; ".join(problems))

    async def _change(self, tasks: anyio.abc.TaskGroup) -> None:
        loaded = await run_sync(load, self._file)
        config = loaded.for_worker(self._worker)
        comparison = compare(self.config, config)
        if comparison.refused:
            raise ConfigurationError(comparison.refused)
        self._check_admin(config)
        plan = self._plan(config, comparison.changes)
        settings = settings_for(config, _newly_linked(self.config, config, plan))
        prepared = await self._virtual_clusters.prepare(config, plan.concerned)
        self._take_admin_certificate(config)  # the last step that may fail: nothing has changed yet
        self._virtual_clusters.take_over(prepared)
        self._clusters.keep_settings(settings)
        changes = comparison.changes
        self._outcome = ReloadOutcome("applying", time.time(), changes)
        with anyio.CancelScope() as self._scope:
            await self._apply(config, plan, prepared, tasks)
        if self._scope.cancel_called:
            self._outcome = ReloadOutcome("given up", time.time(), changes, ("the process is stopping",))
            return
        self._since, self._hash = time.time(), fingerprint(loaded)
        self._outcome = ReloadOutcome("applied", self._since, changes)
        log.info("configuration reloaded", changes=[str(change) for change in changes], hash=self._hash)
        for warning in warnings_of(config):
            log.warning("configuration warning", detail=str(warning))

    def _plan(self, config: Config, changes: tuple[Change, ...]) -> _Plan:
        reconnected = frozenset(ClusterName(each.name) for each in changes if isinstance(each, ClusterChanged))
        changed = {each.name: each.keys for each in changes if isinstance(each, VirtualClusterChanged)}
        ended = {each.name for each in changes if isinstance(each, VirtualClusterRemoved | VirtualClusterRenewed)}
        begun = {each.name for each in changes if isinstance(each, VirtualClusterAdded | VirtualClusterRenewed)}
        left: dict[str, frozenset[ClusterName]] = {}
        running = self._virtual_clusters.names()
        for configured in config.virtual_clusters:
            name = configured.name
            if name in begun or name not in running:
                begun.add(name)
                continue
            clusters = self._virtual_clusters.clusters_to_leave(configured, config.routers, reconnected)
            if clusters is None:
                ended.add(name)
                begun.add(name)
            else:
                left[name] = clusters
        return _Plan(reconnected, frozenset(ended), frozenset(begun), left, changed)

    async def _apply(self, config: Config, plan: _Plan, prepared: Prepared, tasks: anyio.abc.TaskGroup) -> None:
        virtual_clusters = self._virtual_clusters
        before, self.config = self.config, config
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(virtual_clusters.stop, sorted(plan.ended), self.grace)
            for name, clusters in plan.left.items():
                for cluster in clusters:
                    leaving.start_soon(virtual_clusters.leave, name, cluster, self.grace)
        self._change_process(before, config)
        await self._clusters.change(config, plan.reconnected)
        left, changed = plan.left, plan.changed
        for configured in config.virtual_clusters:
            name = configured.name
            if name in left and (left[name] or name in changed):
                setup = prepared.setups[name] if _SECURITY.intersection(changed.get(name, ())) else None
                await virtual_clusters.change(configured, setup, left[name], self.grace, tasks)
        for configured in config.virtual_clusters:
            if configured.name in plan.begun:
                setup = prepared.setups[configured.name]
                running = virtual_clusters.build(configured, setup, self._clusters, tasks)
                await virtual_clusters.serve(running, tasks)
        virtual_clusters.rearrange(config)
        await virtual_clusters.look_at_files()

    def _check_admin(self, config: Config) -> None:
        """Raises ConfigurationError for unusable files of the admin address."""
        if config.admin is not None and config.admin.tls is not None:
            admin_certificate(config.admin.tls)

    def _change_process(self, before: Config, config: Config) -> None:
        self._memory.limit = config.budget
        if config.log != before.log:
            configure_logs(config.log.level, config.log.format)
        assert self._readiness is not None
        self._readiness.grace = self.grace
        if self.admin is None or config.admin is None:
            return
        self.admin.access.token = config.admin.token
        self.admin.access.open_probes = config.admin.open_probes
        self.admin.open(self._readiness)

    def _take_admin_certificate(self, config: Config) -> None:
        """Reads the files of the admin address again. Raises ConfigurationError."""
        if self.admin is None or self.admin.certificate is None or config.admin is None or config.admin.tls is None:
            return
        before = self.admin.certificate
        self.admin.certificate = admin_certificate(config.admin.tls, before.context)
        self._virtual_clusters.watched.remove(before.files)
        self._virtual_clusters.watched.append(self.admin.certificate.files)


def _newly_linked(before: Config, config: Config, plan: _Plan) -> set[ClusterName]:
    """Returns the clusters to which targets get new connections."""
    had = {name for each in before.virtual_clusters for name in linked_clusters(each, before.routers)}
    linked = [(each.name in plan.begun, linked_clusters(each, config.routers)) for each in config.virtual_clusters]
    return {name for begins, names in linked for name in names if begins or name in plan.reconnected or name not in had}
