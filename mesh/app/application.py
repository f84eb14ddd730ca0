"""From the configuration to a process at work, and to its end in order."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.abc
from confluent_kafka import KafkaException

from mesh.admin.http import AdminAccess, serve_admin
from mesh.admin.leases import LeaseApi
from mesh.admin.topologies import TopologyApi
from mesh.app.clusters import Clusters, access_to
from mesh.app.from_config import properties_of
from mesh.app.readiness import Readiness
from mesh.app.reconfiguring import AdminSetup, Reconfiguring
from mesh.app.targets import linked_clusters
from mesh.app.virtual_clusters import VirtualClusters
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Admin, Config, PoolTargetConfig
from mesh.config.warnings import warnings_of
from mesh.listener.limits import Descriptors, raise_descriptor_limit
from mesh.listener.listener_setup import admin_certificate
from mesh.listener.watched_files import watch
from mesh.memory import MemoryBudget
from mesh.telemetry.journal import Journal
from mesh.telemetry.logs import configure_logs, get_logger
from mesh.telemetry.loop_lag import measure_loop_lag
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.store.store import TopicStore
from mesh.upstream.store.topic import StorePlace
from mesh.upstream.writers.journal import JournalWriter

log = get_logger(__name__)


def run(config: Config, file: Path) -> int:
    """Serve until SIGTERM or SIGINT; SIGHUP reads the file again. Returns the exit code of the process.

    Raises ConfigurationError when an address cannot be listened on.
    """
    configure_logs(config.log.level, config.log.format)
    return anyio.run(_run, config, file, backend="asyncio", backend_options={"use_uvloop": True})


async def _run(config: Config, file: Path) -> int:
    app = Application(config, file)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.heed_signals, tasks.cancel_scope)
        await app.start(tasks)
        await app.stopping.wait()
        deadline = app.config.drain_timeout
        with anyio.move_on_after(deadline) as scope:
            await app.drain()
        if scope.cancelled_caught:
            log.warning("not everything could be put in order before the deadline", deadline=deadline)
        tasks.cancel_scope.cancel()
    log.info("stopped")
    return 0


class Application:
    def __init__(self, config: Config, file: Path) -> None:
        self._metrics = Metrics()
        memory = MemoryBudget(config.budget)
        descriptors = _descriptors(max(each.limits.connections for each in config.virtual_clusters))
        upstream_health = UpstreamHealth(tuple(cluster.name for cluster in config.clusters))
        self._metrics.add_collector(upstream_health.samples)
        self._upstream_health = upstream_health
        self._journal = _keep_journal(config, self._metrics)
        self._store = _open_store(config)
        self._virtual_clusters = VirtualClusters(
            self._metrics, memory, descriptors, upstream_health, self._journal, self._store
        )
        self._clusters = Clusters(config, upstream_health, self._virtual_clusters.tell_topics)
        self._reconfiguring = Reconfiguring(config, file, memory, self._clusters, self._virtual_clusters)
        self._metrics.add_collector(self._reconfiguring.samples)
        self._readiness = Readiness(
            upstream_health,
            self._virtual_clusters.targets,
            self._virtual_clusters.pools,
            self._reconfiguring,
            grace=self._reconfiguring.grace,
        )
        self.stopping = asyncio.Event()

    @property
    def config(self) -> Config:
        """The one that runs now."""
        return self._reconfiguring.config

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        config, virtual_clusters = self.config, self._virtual_clusters
        for warning in warnings_of(config):
            log.warning("the configuration is used as it is, and had better be changed", detail=str(warning))
        if config.admin is not None:
            await self._serve_admin(tasks, config.admin)
        linked = frozenset().union(*(linked_clusters(each, config.routers) for each in config.virtual_clusters))
        self._clusters.admit(access_to(config, linked))
        prepared = await virtual_clusters.prepare(config, [each.name for each in config.virtual_clusters])
        virtual_clusters.admit(prepared)
        tasks.start_soon(measure_loop_lag, self._metrics)
        tasks.start_soon(self._upstream_health.keep_reminding)
        running = [
            virtual_clusters.build(each, prepared.setups[each.name], self._clusters, tasks)
            for each in config.virtual_clusters
        ]
        tasks.start_soon(watch, virtual_clusters.watched)
        pools = [each for each in running if isinstance(each.configured.target, PoolTargetConfig)]
        for each in running:  # others have no topics of their own, and do not wait for clusters that are down
            if each not in pools:
                await virtual_clusters.serve(each, tasks)
        await self._clusters.first_look()
        _leave_out_what_stays()
        for each in pools:
            await virtual_clusters.serve(each, tasks)
        self._reconfiguring.begin(tasks, self._readiness)
        self._readiness.listening = True
        reached = [cluster.name for cluster in config.clusters if self._upstream_health.has_reached(cluster.name)]
        if reached:
            log.info("clients are served", clusters=reached)
        else:
            log.warning("clients are let in, but no upstream cluster is reached yet", clusters=reached)

    async def heed_signals(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    self._reconfiguring.ask_soon()
                    continue
                if self.stopping.is_set():
                    log.warning("stopped at once, by a second signal", signal=number.name)
                    scope.cancel()
                    return
                log.info("stopping", signal=number.name)
                self._readiness.stopping = True
                self.stopping.set()

    async def drain(self) -> None:
        """Let members commit what they hold; then stop accepting, answer what waits, commit, leave upstream."""
        await self._reconfiguring.end()
        await self._virtual_clusters.stop(self._virtual_clusters.names(), self._reconfiguring.grace)
        self._virtual_clusters.close()
        self._clusters.close()
        if self._journal is not None:
            await self._journal.close()
        if self._store is not None:
            await self._store.close()

    async def _serve_admin(self, tasks: anyio.abc.TaskGroup, configured: Admin) -> None:
        certificate = admin_certificate(configured.tls) if configured.tls is not None else None
        context = None
        if certificate is not None:
            context = certificate.context
            self._virtual_clusters.watched.append(certificate.files)
        access = AdminAccess(configured.token, configured.open_probes, context)
        leases = LeaseApi(self._virtual_clusters.pools, self._clusters.addresses, lambda: self._readiness.serving)
        admin = AdminSetup(access, leases, _is_loopback(configured.listen.host), certificate)
        self._reconfiguring.admin = admin
        admin.open(self._readiness)
        routes = [*leases.routes(), *TopologyApi(self._virtual_clusters.topologies).routes()]
        serve = partial(serve_admin, access=access, routes=routes)
        await tasks.start(serve, configured.listen, self._readiness, self._metrics)


def _leave_out_what_stays() -> None:
    """Modules and configuration are there until the end: the collector, which stops everything for tens of milliseconds
    to look through them, does not do so again."""
    gc.collect()
    gc.freeze()


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _keep_journal(config: Config, metrics: Metrics) -> Journal | None:
    kept = config.journal
    if kept is None:
        return None
    cluster = next(each for each in config.clusters if each.name == kept.cluster)
    loop = asyncio.get_running_loop()

    def tell(reason: str) -> None:
        log.warning("the journal cannot be written", cluster=cluster.name, topic=kept.topic, reason=reason)

    names = config.process_id or "", uuid4().hex
    place = cluster.bootstrap_servers, properties_of(cluster), kept.topic, kept.create
    return Journal(JournalWriter(*place, *names, tell, loop), metrics, loop, kept.interval, kept.limit)


def _open_store(config: Config) -> TopicStore | None:
    kept = config.store
    if kept is None:
        return None
    index = next(index for index, each in enumerate(config.clusters) if each.name == kept.cluster)
    cluster = config.clusters[index]

    def tell(reason: str) -> None:
        fields = {"cluster": cluster.name, "topic": kept.topic}
        if reason:
            log.warning("the store cannot be read", reason=reason, **fields)
        else:
            log.info("the store has been read", **fields)

    place = StorePlace(cluster.name, cluster.bootstrap_servers, properties_of(cluster), kept.topic, kept.create)
    try:
        return TopicStore(place, tell)
    except KafkaException as problem:
        allowed = f"properties that librdkafka takes: {problem.args[0].str()}"
        raise ConfigurationError([Mistake(("clusters", index, "properties"), "", allowed)]) from problem


def _descriptors(wanted: int) -> Descriptors:
    """Take all that this process may have. wanted: connections that the configuration allows."""
    descriptors = Descriptors(raise_descriptor_limit())
    fields = {"descriptors": descriptors.available, "connections": descriptors.for_clients}
    if descriptors.for_clients < wanted:
        log.warning("open files suffice for fewer connections than are configured", **fields)
    else:
        log.info("open files are limited", **fields)
    return descriptors
