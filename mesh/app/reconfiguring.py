"""A changed configuration while the process runs: all of it, or nothing.

First everything is read and checked that may be wrong: the file, the files that it names, addresses that it wants. If
something is, nothing changes. Then what goes, or is to be reached otherwise, is left in order, as at a stop: members
commit what they hold of it; meanwhile everything else goes on. Then what is new begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
from anyio.to_thread import run_sync

from mesh.admin.http import AdminAccess
from mesh.admin.leases import LeaseApi
from mesh.app.clusters import Clusters, access_to
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
from mesh.telemetry.metric_definitions import CONFIG_INFO, CONFIG_RELOAD_FAILED, CONFIG_RELOADED_SECONDS, Sample

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
        """Who reaches the address without a token changes nothing, unless only this machine reaches it."""
        self.leases.is_open = readiness.is_open = self.access.token is not None or self.is_loopback


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of the last attempt. at: seconds since 1970. problems: why it was refused."""

    state: Literal["started", "applying", "applied", "refused", "given up"]
    at: float
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()


class Reconfiguring:
    """Reads the configuration again, and changes what runs accordingly. config: the one that runs."""

    def __init__(
        self, config: Config, file: Path, memory: MemoryBudget, clusters: Clusters, virtual_clusters: VirtualClusters
    ) -> None:
        self.config = config
        self.admin: AdminSetup | None = None
        self._file = file
        self._memory = memory
        self._clusters = clusters
        self._virtual_clusters = virtual_clusters
        self._outcome = Outcome("started", time.time())
        self._since = self._outcome.at
        """When the configuration that runs was read."""
        self._hash = fingerprint(config)
        self._at_work = asyncio.Lock()
        self._scope: anyio.CancelScope | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._readiness: Readiness | None = None

    @property
    def grace(self) -> float:
        """Seconds that members have to commit; to leave the upstream groups takes its time, too."""
        return min(self.config.drain_grace, self.config.drain_timeout * 0.6)

    def begin(self, tasks: anyio.abc.TaskGroup, readiness: Readiness) -> None:
        """Clients are served: from now on something may change. tasks: of the process."""
        self._tasks, self._readiness = tasks, readiness

    async def end(self) -> None:
        """The process stops: what was being changed stays as it is just now."""
        if self._scope is not None:
            self._scope.cancel()
        async with self._at_work:
            self._tasks = None

    # Asked by operators

    def ask_soon(self) -> None:
        """By a signal. One that comes while the process starts or stops is ignored; others wait for each other."""
        if self._tasks is not None:
            self._tasks.start_soon(self.change)

    async def ask(self) -> tuple[int, dict[str, object]]:
        """By a request, which is answered when everything has changed. It does so also if nobody waits for that."""
        if self._tasks is None or self._at_work.locked():
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

    def samples(self) -> Iterator[Sample]:
        """For a scrape."""
        yield Sample(CONFIG_INFO, (self._hash,), 1)
        yield Sample(CONFIG_RELOAD_FAILED, (), self._outcome.state == "refused")
        yield Sample(CONFIG_RELOADED_SECONDS, (), self._since)

    # How

    async def change(self) -> None:
        """Read the file, and do what it says, or nothing."""
        async with self._at_work:
            if self._tasks is None:
                return
            try:
                await self._change(self._tasks)
            except ConfigurationError as problem:
                problems = tuple(map(str, problem.mistakes))
                self._outcome = Outcome("refused", time.time(), problems=problems)
                log.warning("a changed configuration is not used", path=str(self._file), reason="; ".join(problems))

    async def _change(self, tasks: anyio.abc.TaskGroup) -> None:
        config = await run_sync(load, self._file)
        comparison = compare(self.config, config)
        if comparison.refused:
            raise ConfigurationError(comparison.refused)
        self._check_admin(config)
        access = access_to(config, _newly_linked(self.config, config, comparison.changes))
        prepared = await self._virtual_clusters.prepare(config, _concerned(comparison.changes))
        self._virtual_clusters.admit(prepared)
        self._clusters.admit(access)
        changes = comparison.changes
        self._outcome = Outcome("applying", time.time(), changes)
        with anyio.CancelScope() as self._scope:
            await self._apply(config, changes, prepared, tasks)
        if self._scope.cancel_called:
            self._outcome = Outcome("given up", time.time(), changes, ("the process is stopping",))
            return
        self._since, self._hash = time.time(), fingerprint(config)
        self._outcome = Outcome("applied", self._since, changes)
        log.info("the configuration was changed", changes=[str(change) for change in changes], hash=self._hash)
        for warning in warnings_of(config):
            log.warning("the configuration is used as it is, and had better be changed", detail=str(warning))

    async def _apply(
        self, config: Config, changes: tuple[Change, ...], prepared: Prepared, tasks: anyio.abc.TaskGroup
    ) -> None:
        virtual_clusters = self._virtual_clusters
        anew = [ClusterName(change.name) for change in changes if isinstance(change, ClusterChanged)]
        ending = {each.name for each in changes if isinstance(each, VirtualClusterRemoved | VirtualClusterRenewed)}
        left: dict[str, frozenset[ClusterName]] = {}
        for configured in config.virtual_clusters:
            if configured.name in ending or configured.name not in virtual_clusters.names():
                continue
            clusters = virtual_clusters.left_by(configured, anew)
            if clusters is None:
                ending.add(configured.name)
            else:
                left[configured.name] = clusters
        before, self.config = self.config, config
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(virtual_clusters.stop, sorted(ending), self.grace)
            for name, clusters in left.items():
                for cluster in clusters:
                    leaving.start_soon(virtual_clusters.leave, name, cluster, self.grace)
        self._change_process(before, config)
        await self._clusters.change(config, anew)
        changed = {each.name: each.keys for each in changes if isinstance(each, VirtualClusterChanged)}
        for configured in config.virtual_clusters:
            name = configured.name
            if name in left and (left[name] or name in changed):
                setup = prepared.setups[name] if _SECURITY.intersection(changed.get(name, ())) else None
                await virtual_clusters.change(configured, setup, left[name], self.grace, tasks)
        for configured in config.virtual_clusters:
            if configured.name not in virtual_clusters.names():
                setup = prepared.setups[configured.name]
                running = virtual_clusters.build(configured, setup, self._clusters, tasks)
                await virtual_clusters.serve(running, tasks)
        virtual_clusters.rearrange(config)
        await virtual_clusters.look_at_files()

    def _check_admin(self, config: Config) -> None:
        """Raises ConfigurationError for files that cannot be used."""
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
        if self.admin.certificate is not None and config.admin.tls is not None:
            watched = self._virtual_clusters.watched
            watched.remove(self.admin.certificate.files)
            self.admin.certificate = admin_certificate(config.admin.tls, self.admin.certificate.context)
            watched.append(self.admin.certificate.files)


def _newly_linked(before: Config, config: Config, changes: tuple[Change, ...]) -> set[ClusterName]:
    """Clusters to which targets have connections of their own that begin, or begin anew."""
    had = {name for each in before.virtual_clusters for name in linked_clusters(each, before.routers)}
    anew = {change.name for change in changes if isinstance(change, ClusterChanged)}
    begun = {change.name for change in changes if isinstance(change, VirtualClusterAdded | VirtualClusterRenewed)}
    linked = [(each.name in begun, linked_clusters(each, config.routers)) for each in config.virtual_clusters]
    return {name for begins, names in linked for name in names if begins or name in anew or name not in had}


def _concerned(changes: tuple[Change, ...]) -> set[str]:
    """Virtual clusters that are built or changed."""
    kinds = VirtualClusterAdded | VirtualClusterChanged | VirtualClusterRenewed
    return {change.name for change in changes if isinstance(change, kinds)}
