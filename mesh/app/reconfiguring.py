"""Applies a changed configuration to the running process: as a whole, or not at all.

First it prepares everything that may fail: it reads the file and the files that it names, derives keys, tries
properties on librdkafka, lets code of users make its parts, binds addresses and takes descriptors. Whatever fails until
then, nothing changes.

Behind that point there is no way back. The process leaves removed and reconnected parts in order, as at a stop: members
commit what they hold of them, and everything else continues. Then new parts start. If one of them cannot start all the
same, the others do, and it starts again after a rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
from anyio.to_thread import run_sync

from mesh.admin.access import AdminAccess
from mesh.admin.leases import LeaseApi
from mesh.app.clusters import UpstreamClusters
from mesh.app.configured_target import ChangedConfig
from mesh.app.prepared import Prepared, close_all
from mesh.app.prepared_clusters import PreparedClusters
from mesh.app.readiness import Readiness
from mesh.app.reload_plan import ReloadPlan, may_need_parts, plan_of, reconnected, with_other_logins
from mesh.app.target_parts import TargetParts
from mesh.app.targets import linked_clusters
from mesh.app.unchanged import UnchangedVirtualClusters
from mesh.app.virtual_clusters import VirtualClusters, nowhere
from mesh.config.changes import Change, compare, fingerprint
from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError
from mesh.config.model import Cluster, Config, PoolTargetConfig, VirtualClusterConfig
from mesh.config.warnings import warnings_of
from mesh.files import shown_name
from mesh.listener.admin_tls import AdminCertificate, AdminTls, admin_certificate
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName
from mesh.tasks import GuardedSteps, OwnedTask, TaskName, TaskReports, Tasks, is_order
from mesh.telemetry.logs import configure_logs, get_logger
from mesh.telemetry.metric_definitions import CONFIG_INFO, CONFIG_RELOAD_FAILED, CONFIG_RELOADED_SECONDS, MetricSample
from mesh.telemetry.task_health import reason_of

log = get_logger(__name__)

_RELOAD = OwnedTask(TaskName.RELOAD)
_STOPPING = ("the process is stopping",)
_SECURITY = frozenset({"tls", "sasl", "authorization", "listeners"})


@dataclass(slots=True)
class AdminSetup:
    """The settings of the admin address. tls: None without TLS."""

    access: AdminAccess
    leases: LeaseApi
    tls: AdminTls | None

    def open(self, readiness: Readiness) -> None:
        """Allows reloads at the admin address: without a token only if no other machine can reach it."""
        self.leases.may_change = readiness.may_change = self.access.token is not None or self.access.is_loopback


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """The outcome of the last reload. at: seconds since 1970. problems: the reasons of a refusal."""

    state: Literal["started", "applying", "applied", "refused", "given up"]
    at: float
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _PreparedChange:
    """A change that may be applied. warnings: those of the configuration. hash: its fingerprint. certificate: that of
    the admin address, if it has one."""

    config: Config
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    hash: str
    plan: ReloadPlan
    clusters: PreparedClusters
    prepared: Prepared
    certificate: AdminCertificate | None


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
        reports: TaskReports,
        worker: int = 1,
    ) -> None:
        """config: the configuration in the file at the start. reports: gets failures that are bugs. worker: the number
        of this process among several, from 1."""
        self.config = config.for_worker(worker)
        self.admin: AdminSetup | None = None
        self.login_changed: Callable[[Cluster], object] = lambda _: None
        """Called for a cluster that has only another user name or password."""
        self._is_asked = False
        """True while a signal waits for its change, perhaps until changes are allowed."""
        self._file = file
        self._worker = worker
        self._memory = memory
        self._clusters = clusters
        self._virtual_clusters = virtual_clusters
        self._reports = reports
        self._unchanged = UnchangedVirtualClusters(self._restart, reports)
        self._problems: list[str] = []
        """The failures of the last reload that concern no virtual cluster."""
        self._outcome = ReloadOutcome("started", time.time())
        self._since = self._outcome.at
        """The time at which the running configuration was read."""
        self._hash = fingerprint(config)
        self._changes = 0
        """The number of changes that are in progress, or wait for the one in progress."""
        self._lock = asyncio.Lock()
        self._scope: anyio.CancelScope | None = None
        self._tasks: Tasks | None = None
        self._readiness: Readiness | None = None

    @property
    def grace(self) -> float:
        """Returns the seconds that members have to commit. The rest of the deadline is for leaving the upstream
        groups."""
        return min(self.config.drain_grace, self.config.drain_timeout * 0.6)

    def begin(self, tasks: Tasks, readiness: Readiness) -> None:
        """Allows changes from now on, since clients are served. tasks: those of the process."""
        self._tasks, self._readiness = tasks, readiness
        if self._is_asked:
            tasks.start(_RELOAD, self.change)

    async def end(self) -> None:
        """Ends changes when the process stops. A change in progress is cancelled where it is, and one that waits does
        not begin."""
        self._tasks = None
        self._unchanged.forget()
        if self._scope is not None:
            self._scope.cancel()
        async with self._lock:
            pass

    # Requests of operators

    def ask_soon(self) -> None:
        """Starts a change after a signal. A signal during the start waits for its end, and a change for the one before
        it. One change serves all signals that come before it begins. A signal during the stop is ignored."""
        if not self._is_asked and self._tasks is not None:
            self._tasks.start(_RELOAD, self.change)
        self._is_asked = True

    async def ask(self) -> tuple[int, dict[str, object]]:
        """Makes a change for a request, and answers when everything has changed. The change is completed even if the
        caller disconnects."""
        if self._tasks is None or self._changes:
            return 409, {"problem": "the configuration is being changed already"}
        done = anyio.Event()

        async def change() -> None:
            try:
                await self.change()
            finally:
                done.set()

        self._tasks.start(_RELOAD, change)
        await done.wait()
        described = self.described()
        if self._outcome.state == "applied":
            return 200, described
        return 422, {**described, "problem": "; ".join(self._outcome.problems)}

    def described(self) -> dict[str, object]:
        outcome = self._outcome
        return {
            "file": shown_name(self._file),
            "hash": self._hash,
            "state": outcome.state,
            "at": outcome.at,
            "changes": [str(change) for change in outcome.changes],
            "problems": list(outcome.problems),
        }

    def degraded(self) -> list[dict[str, object]]:
        """Returns the virtual clusters that the last reload could not change, in the form of
        `UpstreamHealth.described`."""
        return self._unchanged.described()

    def samples(self) -> Iterator[MetricSample]:
        """The samples for a scrape."""
        yield MetricSample(CONFIG_INFO, (self._hash,), 1)
        yield MetricSample(CONFIG_RELOAD_FAILED, (), self._outcome.state == "refused")
        yield MetricSample(CONFIG_RELOADED_SECONDS, (), self._since)

    # Internals

    async def change(self) -> None:
        """Reads the file, and applies all of it or nothing."""
        self._changes += 1
        try:
            async with self._lock:
                if self._tasks is not None:
                    self._is_asked = False
                    await self._change(self._tasks)
        finally:
            self._changes -= 1

    async def _change(self, tasks: Tasks) -> None:
        with anyio.CancelScope() as self._scope:
            try:
                change = await self._prepare()
            except Exception as problem:  # noqa: BLE001 - nothing has changed yet
                self._refuse(problem)
                return
        if self._scope.cancel_called:  # all sockets are closed when the process ends
            self._outcome = ReloadOutcome("given up", time.time(), problems=_STOPPING)
            return
        await self._carry_out(change, tasks)

    def _refuse(self, problem: Exception) -> None:
        match problem:
            case ConfigurationError(mistakes=mistakes):
                problems = tuple(map(str, mistakes))
            case OSError():  # for example, no descriptor is left
                problems = (f"the system does not allow it now: {problem}",)
            case _:
                problems = (f"bug in kafka-mesh: {reason_of(problem)}",)
                self._reports.failed(_RELOAD, problem, None)
        self._outcome = ReloadOutcome("refused", time.time(), problems=problems)
        log.warning("configuration not reloaded", path=shown_name(self._file), reason="; ".join(problems))

    async def _prepare(self) -> _PreparedChange:
        """Does everything that may fail. Raises ConfigurationError or OSError; then nothing has changed."""
        loaded = await run_sync(load, self._file, abandon_on_cancel=True)
        config = loaded.for_worker(self._worker)
        comparison = compare(self.config, config)
        if comparison.refused:
            raise ConfigurationError(comparison.refused)
        warnings, hash = tuple(map(str, warnings_of(config))), fingerprint(loaded)
        certificate = await self._read_admin_certificate(config)
        missing = [*self._unchanged]
        names = may_need_parts(config, comparison.changes, missing)
        parts = await self._virtual_clusters.make_parts(config, names)
        try:
            plan = plan_of(self.config, config, comparison.changes, self._virtual_clusters, missing, parts)
            changed = reconnected(comparison.changes) | with_other_logins(comparison.changes)
            connected = self._clusters.unconnected(config) | changed
            clusters = await self._clusters.prepare(config, connected, plan.linked)
            prepared = await self._virtual_clusters.prepare(config, plan.concerned, parts)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await close_all(parts)
            raise
        return _PreparedChange(config, comparison.changes, warnings, hash, plan, clusters, prepared, certificate)

    async def _carry_out(self, change: _PreparedChange, tasks: Tasks) -> None:
        """Applies what was prepared: from here on there is no way back. What fails all the same concerns one virtual
        cluster if possible, and the virtual clusters that failed start again after a rest."""
        changes = change.changes
        self._outcome = ReloadOutcome("applying", time.time(), changes)
        self._unchanged.forget()
        with anyio.CancelScope() as self._scope:
            self._problems = []
            await self._apply(change, tasks)
        with self._shared_step(change.plan):
            await self._virtual_clusters.release(change.prepared)
        if self._scope.cancel_called:
            self._outcome = ReloadOutcome("given up", time.time(), changes, _STOPPING)
            return
        self._since, self._hash = time.time(), change.hash
        problems = (*self._problems, *self._unchanged.problems())
        self._outcome = ReloadOutcome("applied", self._since, changes, problems)
        log.info("configuration reloaded", changes=[str(each) for each in changes], hash=self._hash)
        for warning in change.warnings:
            log.warning("configuration warning", detail=warning)
        self._unchanged.begin(tasks)

    async def _apply(self, change: _PreparedChange, tasks: Tasks) -> None:
        config, plan, prepared, virtual_clusters = change.config, change.plan, change.prepared, self._virtual_clusters
        before, self.config = self.config, config
        with self._shared_step(plan):
            virtual_clusters.take_over(prepared)
            self._clusters.take(change.clusters)
        with self._shared_step(plan):
            self._take_admin_certificate(change.certificate)
        await self._leave(plan)
        with self._shared_step(plan):
            self._change_process(before, config)
        with self._shared_step(plan):
            added = self._clusters.change(config, change.clusters)
            # Other targets do not wait for clusters that are down.
            others = [each for each in config.virtual_clusters if not isinstance(each.target, PoolTargetConfig)]
            await self._begin(others, plan, prepared, tasks)
            await self._clusters.until_answered(added)
        with self._shared_step(plan):
            for each in config.clusters:
                if each.name in plan.other_logins:
                    self.login_changed(each)
        await self._change_in_place(config, plan, prepared, tasks)
        pools = [each for each in config.virtual_clusters if isinstance(each.target, PoolTargetConfig)]
        await self._begin(pools, plan, prepared, tasks)
        with self._shared_step(plan):
            virtual_clusters.rearrange(config)
        with self._shared_step(plan):
            await virtual_clusters.look_at_files()

    async def _leave(self, plan: ReloadPlan) -> None:
        """Stops virtual clusters, and leaves clusters, all at once. Members commit what they hold."""

        async def stop() -> None:
            with self._shared_step(plan):
                await self._virtual_clusters.stop(sorted(plan.ended), self.grace, GuardedSteps(self._reports), nowhere)

        async def leave(name: str, cluster: ClusterName) -> None:
            with self._step(name):
                await self._virtual_clusters.leave(name, cluster, self.grace)

        async with anyio.create_task_group() as leaving:
            leaving.start_soon(stop)
            for name, clusters in plan.left.items():
                for cluster in clusters:
                    leaving.start_soon(leave, name, cluster)

    async def _change_in_place(self, config: Config, plan: ReloadPlan, prepared: Prepared, tasks: Tasks) -> None:
        for configured in config.virtual_clusters:
            name = configured.name
            is_changed = bool(plan.left.get(name)) or name in plan.changed
            if name in plan.begun or not is_changed or name in self._unchanged:
                continue
            setup = prepared.setups[name] if _SECURITY.intersection(plan.changed.get(name, ())) else None
            wanted = ChangedConfig(configured, config.routers, prepared.parts.get(name, TargetParts(name)))
            with self._step(name):
                await self._virtual_clusters.change(wanted, setup, plan.left[name], self.grace, tasks)

    async def _begin(
        self, configured: Iterable[VirtualClusterConfig], plan: ReloadPlan, prepared: Prepared, tasks: Tasks
    ) -> None:
        """Starts those of the virtual clusters that are to start."""
        for each in configured:
            if each.name in plan.begun and each.name not in self._unchanged:
                with self._step(each.name):
                    running = self._virtual_clusters.build(each, prepared, self._clusters, tasks)
                    await self._virtual_clusters.serve(running, tasks)

    async def _restart(self, name: str, is_meant: Callable[[], bool]) -> None:
        """Starts a virtual cluster again with the configuration that runs. Raises an exception if that fails."""
        async with self._lock:
            if self._tasks is None or not is_meant():
                return
            with anyio.CancelScope() as self._scope:
                await self._restart_now(name, self._tasks)

    async def _restart_now(self, name: str, tasks: Tasks) -> None:
        config, clusters, virtual_clusters = self.config, self._clusters, self._virtual_clusters
        configured = next(each for each in config.virtual_clusters if each.name == name)
        parts = await virtual_clusters.make_parts(config, [name])
        try:
            linked = linked_clusters(configured, config.routers)
            ready = await clusters.prepare(config, clusters.unconnected(config), linked)
            prepared = await virtual_clusters.prepare(config, [name], parts)
            virtual_clusters.take_over(prepared)
            clusters.take(ready)
            running = {name} & set(virtual_clusters.names())
            await virtual_clusters.stop(running, 0.0, GuardedSteps(self._reports), nowhere)
            await clusters.until_answered(clusters.change(config, ready))
            await virtual_clusters.serve(virtual_clusters.build(configured, prepared, clusters, tasks), tasks)
            virtual_clusters.rearrange(config)
            await virtual_clusters.release(prepared)
        finally:
            with anyio.CancelScope(shield=True):
                await close_all(parts)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Keeps an exception at one virtual cluster from the others, which change all the same."""
        try:
            yield
        except BaseException as problem:
            if is_order(problem):
                raise
            self._unchanged.add(name, problem)

    @contextmanager
    def _shared_step(self, plan: ReloadPlan) -> Iterator[None]:
        """Keeps an exception in a step of the process from the next steps, which run all the same. All virtual clusters
        that are to change start again."""
        try:
            yield
        except BaseException as problem:
            if is_order(problem):
                raise
            if not plan.touched:
                self._problems.append(reason_of(problem))
                self._reports.failed(_RELOAD, problem, None)
            for name in sorted(plan.touched):
                self._unchanged.add(name, problem)

    async def _read_admin_certificate(self, config: Config) -> AdminCertificate | None:
        """Reads the files of the admin address. Raises ConfigurationError if they are unusable."""
        if config.admin is None or config.admin.tls is None:
            return None
        return await run_sync(admin_certificate, config.admin.tls, abandon_on_cancel=True)

    def _change_process(self, before: Config, config: Config) -> None:
        self._memory.limit = config.budget
        if config.log != before.log:
            configure_logs(config.log.level, config.log.format)
        assert self._readiness is not None
        self._readiness.grace = self.grace
        if self.admin is None or config.admin is None:
            return
        self.admin.access.take(config.admin)
        self.admin.open(self._readiness)

    def _take_admin_certificate(self, certificate: AdminCertificate | None) -> None:
        if self.admin is None or self.admin.tls is None or certificate is None:
            return
        watched = self._virtual_clusters.watched
        watched.remove(self.admin.tls.certificate.files)
        self.admin.tls.replace(certificate)
        watched.append(certificate.files)
