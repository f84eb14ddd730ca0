"""The running process: built from the configuration, and stopped in order."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.abc
from confluent_kafka import KafkaException
from starlette.routing import Route
from structlog.contextvars import bind_contextvars

from mesh import hangups
from mesh.admin.access import AdminAccess
from mesh.admin.http import bind_admin, serve_admin
from mesh.admin.leases import LeaseApi
from mesh.admin.moves import MoveApi
from mesh.admin.peers import PeerApi
from mesh.admin.records import RecordApi
from mesh.admin.replays import ReplayApi
from mesh.admin.topologies import TopologyApi
from mesh.app import renewing
from mesh.app.clusters import UpstreamClusters
from mesh.app.exporting import Exporting
from mesh.app.from_config import properties_of
from mesh.app.peers import Peers
from mesh.app.readiness import Readiness
from mesh.app.reconfiguring import AdminSetup, Reconfiguring
from mesh.app.targets import linked_clusters
from mesh.app.virtual_clusters import VirtualClusters, nowhere
from mesh.app.worker import ThisWorker
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Admin, Cluster, Config, Look, PoolTargetConfig
from mesh.config.values import Address
from mesh.config.warnings import warnings_of
from mesh.listener import certificates
from mesh.listener.admin_tls import AdminTls, admin_certificate
from mesh.listener.limits import Descriptors, raise_descriptor_limit
from mesh.listener.watched_files import watch
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName
from mesh.tasks import GuardedSteps, OwnedTask, TaskName, Tasks, reporting
from mesh.telemetry import loop_lag
from mesh.telemetry.journal import DeliveryLogs, Journal
from mesh.telemetry.logs import configure_logs, get_logger
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.librdkafka_properties import Properties
from mesh.upstream.store.store import TopicStore
from mesh.upstream.store.topic import StorePlace
from mesh.upstream.writers.journal import JournalWriter

log = get_logger(__name__)

_ANY_PORT = Address("127.0.0.1", 0)


def run(config: Config, file: Path, worker: ThisWorker | None = None) -> int:
    """Serves until SIGTERM or SIGINT; SIGHUP reads the file again. Returns the exit code of the process.

    config: the configuration in the file. worker: the place of this process among several, None if it is the only one.
    Raises ConfigurationError when it cannot listen on an address.
    """
    configure_logs(config.log.level, config.log.format)
    if worker is not None:
        bind_contextvars(worker=worker.number)
    return anyio.run(_run, config, file, worker, backend="asyncio", backend_options={"use_uvloop": True})


async def _run(config: Config, file: Path, worker: ThisWorker | None) -> int:
    app = Application(config, file, worker)
    # The receiver stays open: while no code receives signals, SIGHUP would end the process.
    with (
        anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals,
        reporting(app.task_health),
    ):
        code = await _serve(app, signals)
    log.info("stopped")
    return code


async def _serve(app: Application, signals: AsyncIterator[signal.Signals]) -> int:
    async with anyio.create_task_group() as group:
        tasks = Tasks(group, app.task_health)
        tasks.keep(OwnedTask(TaskName.SIGNALS), partial(app.heed_signals, signals, group.cancel_scope))
        await app.start(tasks)
        await app.stopping.wait()
        deadline = app.config.drain_timeout
        code = 0
        with anyio.move_on_after(deadline) as scope:
            code = 0 if await app.drain() else 1
        if scope.cancelled_caught:
            log.warning("stop deadline exceeded", deadline=deadline)
        group.cancel_scope.cancel()
    return code


class Application:
    def __init__(self, config: Config, file: Path, worker: ThisWorker | None = None) -> None:
        number = worker.number if worker is not None else 1
        loaded, config = config, config.for_worker(number)
        self._worker = worker
        self._metrics = Metrics()
        self.task_health = TaskHealth(self._metrics)
        memory = MemoryBudget(config.budget)
        descriptors = _descriptors(max(each.limits.connections for each in config.virtual_clusters))
        upstream_health = UpstreamHealth(tuple(cluster.name for cluster in config.clusters))
        self._metrics.add_collector(upstream_health.samples)
        self._upstream_health = upstream_health
        self._journal = _keep_journal(config, self._metrics)
        self._exporting = Exporting(config)
        logs = [each for each in (self._journal, self._exporting.spans) if each is not None]
        self._store = _open_store(config)
        self._virtual_clusters = VirtualClusters(
            self._metrics,
            memory,
            descriptors,
            upstream_health,
            DeliveryLogs(logs) if logs else None,
            self._exporting.batch_every,
            self._store,
            self.task_health,
        )
        self._clusters = UpstreamClusters(
            config, upstream_health, self._virtual_clusters.pass_on_topics, self._virtual_clusters.watched
        )
        self._reconfiguring = Reconfiguring(
            loaded, file, memory, self._clusters, self._virtual_clusters, self.task_health, number
        )
        self._metrics.add_collector(loop_lag.samples)
        self._renewal = renewing.GroupRenewal(self._virtual_clusters.pools, lambda: self._reconfiguring.grace)
        self._clusters.files_changed = self._renewal.soon
        self._reconfiguring.login_changed = self._login_changed
        self._metrics.add_collector(self._reconfiguring.samples)
        self._metrics.add_collector(renewing.samples)
        self._metrics.add_collector(partial(certificates.samples, self._virtual_clusters.watched))
        self._readiness = Readiness(
            upstream_health,
            self._virtual_clusters.targets,
            self._virtual_clusters.pools,
            self._reconfiguring,
            waiting=self._virtual_clusters.waiting,
            grace=self._reconfiguring.grace,
            task_health=self.task_health,
            watched=self._virtual_clusters.watched,
        )
        self._instance = worker.instance if worker is not None else uuid4().hex
        token = config.admin.token if config.admin is not None else None
        self._peers = Peers(config.peers, token, self._instance) if config.peers is not None else None
        self.stopping = asyncio.Event()

    @property
    def config(self) -> Config:
        """The configuration that runs at present."""
        return self._reconfiguring.config

    async def start(self, tasks: Tasks) -> None:
        config, virtual_clusters = self.config, self._virtual_clusters
        for warning in warnings_of(config):
            log.warning("configuration warning", detail=str(warning))
        if self._worker is not None:
            self._worker.watch_supervisor()
            await self._serve_supervisor(tasks, self._worker)
        elif config.admin is not None:
            await self._serve_admin(tasks, config.admin)
        linked = frozenset().union(*(linked_clusters(each, config.routers) for each in config.virtual_clusters))
        self._clusters.begin(await self._clusters.prepare(config, [each.name for each in config.clusters], linked))
        names = [each.name for each in config.virtual_clusters]
        prepared = await virtual_clusters.prepare(config, names, await virtual_clusters.make_parts(config, names))
        virtual_clusters.take_over(prepared)
        tasks.keep(OwnedTask(TaskName.LOOP_LAG), partial(loop_lag.measure_loop_lag, self._metrics))
        if self._exporting.sends_metrics:
            tasks.keep(OwnedTask(TaskName.METRICS_EXPORT), partial(self._exporting.keep_sending, self._metrics))
        tasks.keep(OwnedTask(TaskName.REMINDERS), self._upstream_health.keep_reminding)
        if self._peers is not None:
            tasks.keep(OwnedTask(TaskName.PEERS), self._peers.keep_asking)
        running = [virtual_clusters.build(each, prepared, self._clusters, tasks) for each in config.virtual_clusters]
        tasks.keep(
            OwnedTask(TaskName.WATCHED_FILES), partial(watch, virtual_clusters.watched, virtual_clusters.file_failed)
        )
        pools = [each for each in running if isinstance(each.configured.target, PoolTargetConfig)]
        for each in running:  # other targets have no topics of their own, and do not wait for clusters that are down
            if each not in pools:
                await virtual_clusters.serve(each, tasks)
        await self._clusters.learn_topics()
        _leave_out_what_stays()
        for each in pools:
            await virtual_clusters.serve(each, tasks)
        self._reconfiguring.begin(tasks, self._readiness)
        self._readiness.listening = True
        reached = [cluster.name for cluster in config.clusters if self._upstream_health.has_reached(cluster.name)]
        if reached:
            log.info("serving clients", clusters=reached)
        else:
            log.warning("listening; no upstream cluster reachable", clusters=reached)

    async def heed_signals(self, signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
        """Handles signals until cancelled. scope: cancelled at the second order to stop."""
        if hangups.take():
            self._reconfiguring.ask_soon()
        async for number in signals:
            if number == signal.SIGHUP:
                self._reconfiguring.ask_soon()
            elif self.stopping.is_set():
                log.warning("stopped at once: second signal", signal=number.name)
                scope.cancel()
            else:
                log.info("stopping", signal=number.name)
                self._readiness.stopping = True
                self.stopping.set()

    async def drain(self) -> bool:
        """Lets members commit what they hold. Then it stops accepting, answers waiting requests, commits, and leaves
        the upstream groups. A step that fails keeps no other one from running. Returns whether no step has failed."""
        guard, stop = GuardedSteps(self.task_health), OwnedTask(TaskName.STOP)
        self._renewal.close()
        with guard.step(stop):
            await self._reconfiguring.end()
        with guard.step(stop):
            self._virtual_clusters.leave_common_addresses()
        if self._peers is not None:
            with guard.step(stop):
                await self._peers.ask_all()  # in a rolling restart the process stopped before has just come back
        with guard.step(stop):
            elsewhere = self._peers.best if self._peers is not None else nowhere
            names, grace = self._virtual_clusters.names(), self._reconfiguring.grace
            await self._virtual_clusters.stop(names, grace, guard, elsewhere)
        for close in (self._virtual_clusters.close, self._clusters.close):
            with guard.step(stop):
                close()
        for last in (self._journal, self._exporting, self._store):
            with guard.step(stop):
                if last is not None:
                    await last.close()
        return not guard.has_failed

    def _login_changed(self, cluster: Cluster) -> None:
        """Passes another user name or password of a cluster on to the parts that stay at a reload: pools, the journal
        and the store."""
        config, properties = self.config, cluster.properties
        login = properties.get("sasl.username", ""), properties.get("sasl.password", "")
        for pool in self._virtual_clusters.pools():
            pool.change_login(cluster.name, *login)
        if self._journal is not None and config.journal is not None and config.journal.cluster == cluster.name:
            self._journal.change_login(*login)
        if self._store is not None and config.store is not None and config.store.cluster == cluster.name:
            self._store.change_login(*login)

    async def _serve_admin(self, tasks: Tasks, configured: Admin) -> None:
        tls = AdminTls(admin_certificate(configured.tls)) if configured.tls is not None else None
        if tls is not None:
            self._virtual_clusters.watched.append(tls.certificate.files)
        access = AdminAccess(tls=tls.context if tls is not None else None, is_loopback=configured.listen.is_loopback)
        access.take(configured)
        leases = self._leases()
        admin = AdminSetup(access, leases, tls)
        self._reconfiguring.admin = admin
        admin.open(self._readiness)
        await self._serve_at(bind_admin(configured.listen), access, leases, tasks)

    async def _serve_supervisor(self, tasks: Tasks, worker: ThisWorker) -> None:
        """Serves the supervisor, to which everything is open: it checks the rights of operators itself."""
        leases = self._leases()
        leases.may_change = self._readiness.may_change = True
        access = AdminAccess(worker.token, open_probes=False)
        listener = bind_admin(_ANY_PORT)
        port = listener.getsockname()[1]
        await self._serve_at(listener, access, leases, tasks)
        worker.answers_at(port)

    async def _serve_at(self, bound: socket.socket, access: AdminAccess, leases: LeaseApi, tasks: Tasks) -> None:
        """Serves at a socket. After a failure it binds the address again."""
        address = Address(*bound.getsockname()[:2])
        unused = [bound]

        async def serve(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            listener = unused.pop() if unused else bind_admin(address)
            state, routes = self._readiness, self._routes(leases)
            await serve_admin(listener, state, self._metrics, access=access, routes=routes, task_status=task_status)

        await tasks.keep_started(OwnedTask(TaskName.ADMIN), serve)

    def _leases(self) -> LeaseApi:
        return LeaseApi(self._virtual_clusters.pools, self._clusters.addresses, lambda: self._readiness.serving)

    def _routes(self, leases: LeaseApi) -> list[Route]:
        records = RecordApi(
            self._virtual_clusters.pools, self._properties_of, self._what_is_shown, lambda: leases.may_change
        )
        replays = ReplayApi(self._virtual_clusters.pools, lambda: leases.may_change)
        moves = MoveApi(self._virtual_clusters.moves, lambda: leases.may_change)
        topologies = TopologyApi(self._virtual_clusters.topologies)
        peers = PeerApi(self._instance, self._virtual_clusters.single_pools, lambda: self._readiness.serving)
        return [api_route for api in (leases, topologies, records, replays, moves, peers) for api_route in api.routes()]

    def _properties_of(self, cluster: ClusterName) -> Properties:
        return self._clusters.properties([cluster])[cluster]

    def _what_is_shown(self) -> Look | None:
        return self.config.admin.look if self.config.admin is not None else None


def _leave_out_what_stays() -> None:
    """Excludes modules and configuration from garbage collection, since they stay until the end. To scan them stops
    everything for tens of milliseconds."""
    gc.collect()
    gc.freeze()


def _keep_journal(config: Config, metrics: Metrics) -> Journal | None:
    kept = config.journal
    if kept is None:
        return None
    cluster = next(each for each in config.clusters if each.name == kept.cluster)
    loop = asyncio.get_running_loop()

    def report(reason: str) -> None:
        log.warning("journal cannot be written", cluster=cluster.name, topic=kept.topic, reason=reason)

    names = config.process_id or "", uuid4().hex
    place = cluster.bootstrap_servers, properties_of(cluster), kept.topic, kept.create
    return Journal(JournalWriter(*place, *names, report, loop), metrics, loop, kept.interval, kept.limit)


def _open_store(config: Config) -> TopicStore | None:
    kept = config.store
    if kept is None:
        return None
    index = next(index for index, each in enumerate(config.clusters) if each.name == kept.cluster)
    cluster = config.clusters[index]

    def report(reason: str) -> None:
        fields = {"cluster": cluster.name, "topic": kept.topic}
        if reason:
            log.warning("store cannot be read", reason=reason, **fields)
        else:
            log.info("store loaded", **fields)

    place = StorePlace(cluster.name, cluster.bootstrap_servers, properties_of(cluster), kept.topic, kept.create)
    try:
        return TopicStore(place, report)
    except KafkaException as problem:
        allowed = f"properties that librdkafka takes: {problem.args[0].str()}"
        raise ConfigurationError([Mistake(("clusters", index, "properties"), "", allowed)]) from problem


def _descriptors(wanted: int) -> Descriptors:
    """Raises the limit of open files as far as this process may. wanted: the connections that the configuration
    allows."""
    descriptors = Descriptors(raise_descriptor_limit())
    fields = {"descriptors": descriptors.available, "connections": descriptors.for_clients}
    if descriptors.for_clients < wanted:
        log.warning("open file limit below the configured connections", **fields)
    else:
        log.info("open file limit", **fields)
    return descriptors
