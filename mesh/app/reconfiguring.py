"""Applies a changed configuration to the running process: as a whole, or not at all.

First it reads and checks everything that may be wrong: the file, the files that it names, and new addresses. Whatever
fails until then, nothing changes. Then it leaves removed and reconnected parts in order, as at a stop: members commit
what they hold of them, and everything else continues. Then new parts start. If one of them cannot start all the same,
the others do, and the next reload starts it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import anyio
from anyio.to_thread import run_sync

from mesh.admin.access import AdminAccess
from mesh.admin.leases import LeaseApi
from mesh.app.clusters import UpstreamClusters, settings_for
from mesh.app.readiness import Readiness
from mesh.app.targets import linked_clusters
from mesh.app.virtual_clusters import Prepared, VirtualClusters, nowhere
from mesh.config.changes import (
    Change,
    ClusterChanged,
    VirtualClusterAdded,
    VirtualClusterChanged,
    VirtualClusterRemoved,
    VirtualClusterRenewed,
    compare,
    fingerprint,
    has_only_another_login,
)
from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError
from mesh.config.model import Cluster, Config
from mesh.config.warnings import warnings_of
from mesh.listener.admin_tls import AdminCertificate, AdminTls, admin_certificate
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName
from mesh.tasks import GuardedSteps, OwnedTask, TaskName, TaskReports, Tasks
from mesh.telemetry.logs import configure_logs, get_logger
from mesh.telemetry.metric_definitions import CONFIG_INFO, CONFIG_RELOAD_FAILED, CONFIG_RELOADED_SECONDS, MetricSample
from mesh.telemetry.task_health import reason_of
from mesh.upstream.links.connection_settings import ConnectionSettings

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
class _Plan:
    """The parts of the process that a changed configuration concerns.

    reconnected: clusters that get new connections. other_logins: those of them that have only another user name or
    password. ended, begun: virtual clusters that stop, and those that start
    afterwards; one that restarts is in both. left: the clusters that each of the other virtual clusters leaves, at
    least for a while. changed: the changed keys of each virtual cluster whose clients stay connected.
    """

    reconnected: frozenset[ClusterName]
    other_logins: frozenset[ClusterName]
    ended: frozenset[str]
    begun: frozenset[str]
    left: Mapping[str, frozenset[ClusterName]]
    changed: Mapping[str, tuple[str, ...]]

    @property
    def concerned(self) -> frozenset[str]:
        """Returns the virtual clusters that are prepared, since they start or change."""
        return self.begun | self.changed.keys()

    @property
    def touched(self) -> frozenset[str]:
        """Returns the virtual clusters that start, change or leave a cluster."""
        return self.concerned | {name for name, clusters in self.left.items() if clusters}


@dataclass(frozen=True, slots=True)
class _PreparedChange:
    """A change that may be applied. loaded: the configuration in the file. certificate: that of the admin address, if
    it has one."""

    loaded: Config
    config: Config
    changes: tuple[Change, ...]
    plan: _Plan
    settings: Mapping[ClusterName, ConnectionSettings]
    prepared: Prepared
    certificate: AdminCertificate | None


@dataclass(frozen=True, slots=True)
class _Incomplete:
    """The failure of a reload at one virtual cluster. at: seconds on the clock."""

    reason: str
    at: float
    since: datetime

    @classmethod
    def now(cls, problem: Exception) -> _Incomplete:
        return cls(reason_of(problem), time.monotonic(), datetime.now(UTC))


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
        """True after the first signal, which may come before changes are allowed."""
        self._file = file
        self._worker = worker
        self._memory = memory
        self._clusters = clusters
        self._virtual_clusters = virtual_clusters
        self._reports = reports
        self._incomplete: dict[str, _Incomplete] = {}
        """The virtual clusters that could not be changed, by name."""
        self._outcome = ReloadOutcome("started", time.time())
        self._since = self._outcome.at
        """The time at which the running configuration was read."""
        self._hash = fingerprint(config)
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
            self.ask_soon()

    async def end(self) -> None:
        """Ends changes when the process stops. A change in progress is cancelled where it is."""
        if self._scope is not None:
            self._scope.cancel()
        async with self._lock:
            self._tasks = None

    # Requests of operators

    def ask_soon(self) -> None:
        """Starts a change after a signal. A signal during the start waits for its end, and a change for the one before
        it. A signal during the stop is ignored."""
        if self._tasks is not None:
            self._tasks.start(_RELOAD, self.change)
        self._is_asked = True

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

        self._tasks.start(_RELOAD, change)
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

    def degraded(self) -> list[dict[str, object]]:
        """Returns the virtual clusters that the last reload could not change, in the form of
        `UpstreamHealth.described`."""
        now = time.monotonic()
        return [
            {
                "what": "virtual cluster not changed by the reload",
                "virtual_cluster": name,
                "reason": each.reason,
                "since": each.since.isoformat(timespec="seconds"),
                "seconds": round(now - each.at, 1),
                "meanwhile": "it may not be served; the next reload starts it again; other virtual clusters are served",
            }
            for name, each in self._incomplete.items()
        ]

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
            with anyio.CancelScope() as self._scope:
                try:
                    prepared = await self._prepare()
                except Exception as problem:  # noqa: BLE001 - nothing has changed yet
                    self._refuse(problem)
                    return
            if self._scope.cancel_called:
                self._outcome = ReloadOutcome("given up", time.time(), problems=_STOPPING)
                return
            await self._carry_out(prepared, self._tasks)

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
        log.warning("configuration not reloaded", path=str(self._file), reason="; ".join(problems))

    async def _prepare(self) -> _PreparedChange:
        """Does everything that may fail. Raises ConfigurationError or OSError; then nothing has changed."""
        loaded = await run_sync(load, self._file, abandon_on_cancel=True)
        config = loaded.for_worker(self._worker)
        comparison = compare(self.config, config)
        if comparison.refused:
            raise ConfigurationError(comparison.refused)
        certificate = await self._read_admin_certificate(config)
        plan = self._plan(config, comparison.changes)
        settings = settings_for(config, _newly_linked(self.config, config, plan))
        prepared = await self._virtual_clusters.prepare(config, plan.concerned)
        return _PreparedChange(loaded, config, comparison.changes, plan, settings, prepared, certificate)

    async def _carry_out(self, change: _PreparedChange, tasks: Tasks) -> None:
        """Applies what was prepared. What fails all the same concerns one virtual cluster."""
        loaded, config, changes, plan = change.loaded, change.config, change.changes, change.plan
        self._virtual_clusters.take_over(change.prepared)
        self._clusters.keep_settings(change.settings)
        self._take_admin_certificate(change.certificate)
        self._outcome = ReloadOutcome("applying", time.time(), changes)
        self._incomplete.clear()
        with anyio.CancelScope() as self._scope:
            try:
                await self._apply(config, plan, change.prepared, tasks)
            except Exception as problem:  # noqa: BLE001 - the process continues with what it could change
                self._reports.failed(_RELOAD, problem, None)
                self._incomplete |= {name: _Incomplete.now(problem) for name in sorted(plan.touched)}
        self._virtual_clusters.release()
        if self._scope.cancel_called:
            self._outcome = ReloadOutcome("given up", time.time(), changes, _STOPPING)
            return
        self._since, self._hash = time.time(), fingerprint(loaded)
        problems = tuple(f"virtual cluster {name}: {each.reason}" for name, each in self._incomplete.items())
        self._outcome = ReloadOutcome("applied", self._since, changes, problems)
        log.info("configuration reloaded", changes=[str(change) for change in changes], hash=self._hash)
        for warning in warnings_of(config):
            log.warning("configuration warning", detail=str(warning))

    def _plan(self, config: Config, changes: tuple[Change, ...]) -> _Plan:
        reconnected = frozenset(ClusterName(each.name) for each in changes if isinstance(each, ClusterChanged))
        changed = {each.name: each.keys for each in changes if isinstance(each, VirtualClusterChanged)}
        ended = {each.name for each in changes if isinstance(each, VirtualClusterRemoved | VirtualClusterRenewed)}
        begun = {each.name for each in changes if isinstance(each, VirtualClusterAdded | VirtualClusterRenewed)}
        left: dict[str, frozenset[ClusterName]] = {}
        old, new = ({each.name: each for each in one.clusters} for one in (self.config, config))
        other_logins = frozenset(name for name in reconnected if has_only_another_login(old[name], new[name]))
        running = self._virtual_clusters.names()
        for configured in config.virtual_clusters:
            name = configured.name
            if name in begun or name not in running or name in self._incomplete:
                begun.add(name)
                ended |= {name} & set(running)
                continue
            clusters = self._virtual_clusters.clusters_to_leave(configured, config.routers, reconnected, other_logins)
            if clusters is None:
                ended.add(name)
                begun.add(name)
            else:
                left[name] = clusters
        return _Plan(reconnected, other_logins, frozenset(ended), frozenset(begun), left, changed)

    async def _apply(self, config: Config, plan: _Plan, prepared: Prepared, tasks: Tasks) -> None:
        virtual_clusters = self._virtual_clusters
        before, self.config = self.config, config
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(
                virtual_clusters.stop, sorted(plan.ended), self.grace, GuardedSteps(self._reports), nowhere
            )
            for name, clusters in plan.left.items():
                for cluster in clusters:
                    leaving.start_soon(virtual_clusters.leave, name, cluster, self.grace)
        self._change_process(before, config)
        await self._clusters.change(config, plan.reconnected)
        for each in config.clusters:
            if each.name in plan.other_logins:
                self.login_changed(each)
        left, changed = plan.left, plan.changed
        for configured in config.virtual_clusters:
            name = configured.name
            if name in left and (left[name] or name in changed):
                setup = prepared.setups[name] if _SECURITY.intersection(changed.get(name, ())) else None
                with self._guarded(name):
                    await virtual_clusters.change(configured, setup, left[name], self.grace, tasks)
        for configured in config.virtual_clusters:
            if configured.name in plan.begun:
                with self._guarded(configured.name):
                    setup = prepared.setups[configured.name]
                    running = virtual_clusters.build(configured, setup, self._clusters, tasks)
                    await virtual_clusters.serve(running, tasks)
        virtual_clusters.rearrange(config)
        await virtual_clusters.look_at_files()

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Keeps an exception at one virtual cluster from the others."""
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - the other virtual clusters change all the same
            self._failed(name, problem)

    def _failed(self, name: str, problem: Exception) -> None:
        self._incomplete[name] = _Incomplete.now(problem)
        self._reports.failed(OwnedTask(TaskName.RELOAD, name), problem, None)

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


def _newly_linked(before: Config, config: Config, plan: _Plan) -> set[ClusterName]:
    """Returns the clusters to which targets get new connections."""
    had = {name for each in before.virtual_clusters for name in linked_clusters(each, before.routers)}
    linked = [(each.name in plan.begun, linked_clusters(each, config.routers)) for each in config.virtual_clusters]
    return {name for begins, names in linked for name in names if begins or name in plan.reconnected or name not in had}
