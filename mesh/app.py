"""The process: builds everything from the configuration, starts it, and takes it down in order."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import uuid4

import anyio
import anyio.abc

from mesh.apis.api import Address, Endpoint
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Admin, Cluster, Config, NamedTopic
from mesh.config.model import Pool as PoolConfig
from mesh.config.model import VirtualCluster as VirtualClusterConfig
from mesh.config.warnings import warnings_of
from mesh.configured import clusters_of, limits_of, properties_of, rules_of, settings_of, topics_of
from mesh.pool.demand import MemoryBudget
from mesh.pool.effects import GroupId
from mesh.pool.virtual_cluster import VirtualCluster
from mesh.records.spans import ClusterName, TopicName
from mesh.server.admin import AdminAccess, serve_admin
from mesh.server.administration import UpstreamAdministration
from mesh.server.dead_letters import Bury, DeadLetterOffice, bury_nothing
from mesh.server.draining import answer as answer_drain
from mesh.server.journal import Journal
from mesh.server.leases import LeaseApi
from mesh.server.limits import Descriptors, Gate, raise_descriptor_limit
from mesh.server.listener_setup import ListenerSetup, admin_certificate
from mesh.server.logs import configure_logs, get_logger
from mesh.server.loop_lag import measure_loop_lag
from mesh.server.metrics import Metrics
from mesh.server.reloading import Watched, watch
from mesh.server.samples import samples_of
from mesh.server.security import ListenerSecurity
from mesh.server.status import status_of
from mesh.server.tls import TlsListener
from mesh.server.trouble_watch import found, not_reached
from mesh.server.troubles import Troubles
from mesh.server.virtual_cluster import VirtualClusterServer
from mesh.upstream.buffers import ReceiveBuffers
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, CatalogUpdate, TopicCatalog
from mesh.upstream.choice import choose, make_engine
from mesh.upstream.dead_letters import DeadLetterWriter
from mesh.upstream.engine import Engine, EngineEvent, EngineName, EngineOptions, Received
from mesh.upstream.journal import JournalWriter
from mesh.upstream.trouble import Trouble

log = get_logger(__name__)

FIRST_LOOK = 6.0
"""Seconds to wait for the upstream clusters before clients are let in; who has not answered by then comes later."""


@dataclass(slots=True)
class Readiness:
    """What is missing before clients are served well."""

    clusters: tuple[str, ...]
    troubles: Troubles
    servers: list[VirtualClusterServer]
    listening: bool = False
    stopping: bool = False
    may_drain: bool = False
    grace: float = 0.0
    """Seconds that members of a pool have to commit when it is drained."""

    def drain(self, method: str, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        """What was asked of /drain. Who reaches the address without a token must not stop a pool."""
        if not self.may_drain and method != "GET":
            return 403, {"problem": "the admin address has no token (admin.token): pools are drained on loopback only"}
        return answer_drain(self.servers, self.grace, method, asked)

    def problems(self) -> list[str]:
        missing = [] if self.listening else ["not listening yet"]
        if self.stopping:
            missing.append("stopping")
        if not any(map(self.troubles.has_reached, self.clusters)):
            missing.append(f"no upstream cluster reached yet: {', '.join(self.clusters)}")
        return missing + self.troubles.blocking()

    def status(self) -> dict[str, object]:
        """Every pool, its members and partitions."""
        return status_of(self.servers)

    def degraded(self) -> list[dict[str, object]]:
        """What is wrong upstream, though the rest goes on."""
        return self.troubles.described()


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code of the process.

    Raises ConfigurationError when an address cannot be listened on.
    """
    configure_logs(config.log.level, config.log.format)
    return anyio.run(_run, config, backend="asyncio", backend_options={"use_uvloop": True})


async def _run(config: Config) -> int:
    app = Application(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.stop_on_signal, tasks.cancel_scope)
        await app.start(tasks)
        await app.stopping.wait()
        with anyio.move_on_after(config.drain_timeout) as deadline:
            await app.drain()
        if deadline.cancelled_caught:
            log.warning("not everything could be put in order before the deadline", deadline=config.drain_timeout)
        tasks.cancel_scope.cancel()
    log.info("stopped")
    return 0


class Application:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._metrics = Metrics()
        self._memory = MemoryBudget(config.budget)
        names = tuple(cluster.name for cluster in config.clusters)
        self._descriptors = _descriptors(max(each.limits.connections for each in config.virtual_clusters))
        self._troubles = Troubles(names)
        self._metrics.add_collector(self._troubles.samples)
        self._servers: list[VirtualClusterServer] = []
        self._readiness = Readiness(names, self._troubles, self._servers, grace=_grace(config))
        self._listeners: list[asyncio.Server | TlsListener] = []
        self._catalogs: dict[ClusterName, TopicCatalog] = {}
        self._found: dict[ClusterName, Mapping[TopicName, int]] | None = {}
        """What the first look found, until all have answered; None from then on."""
        self._looked = {cluster.name: asyncio.Event() for cluster in config.clusters}
        self._writers: dict[tuple[ClusterName, bool], DeadLetterWriter] = {}
        self._journal = self._keep_journal()
        self._watched: list[Watched[Any]] = []
        self._engines = {cluster.name: self._choose_engine(cluster) for cluster in config.clusters}
        self._buffers = ReceiveBuffers(config.budget // 2)
        self.stopping = asyncio.Event()

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        setups = self._security()
        if self._config.admin is not None:
            await self._serve_admin(tasks, self._config.admin)
        tasks.start_soon(measure_loop_lag, self._metrics)
        tasks.start_soon(self._troubles.keep_reminding)
        for virtual_cluster in self._config.virtual_clusters:
            setup = setups[virtual_cluster.name]
            server = self._server(virtual_cluster, setup.security)
            setup.rules_changed = server.rules_changed
            self._watched += setup.watched
            if setup.key_source is not None:
                tasks.start_soon(setup.key_source.keep_fresh)
            self._servers.append(server)
            self._metrics.add_collector(partial(samples_of, server))
        for cluster in self._config.clusters:
            self._catalogs[cluster.name] = TopicCatalog(
                cluster.name,
                cluster.bootstrap_servers,
                properties_of(cluster),
                self._config.metadata_refresh,
                self._catalog_event,
                loop,
            )
        for index, server in enumerate(self._servers):
            await self._bind(server, index, "listen", tasks)
            await self._bind(server, index, "coordinator", tasks)
        if any(watched.paths for watched in self._watched):
            tasks.start_soon(watch, self._watched)
        with anyio.move_on_after(FIRST_LOOK):
            for event in self._looked.values():
                await event.wait()
        self._number_partitions()
        for cluster in self._config.clusters:
            if not self._troubles.has_reached(cluster.name) and self._troubles.connection(cluster.name) is None:
                not_reached(self._troubles, cluster.name, Trouble.UNREACHABLE, f"no answer within {FIRST_LOOK:g} s")
        for listener in self._listeners:
            await listener.start_serving()
        self._readiness.listening = True
        reached = [cluster.name for cluster in self._config.clusters if self._troubles.has_reached(cluster.name)]
        if reached:
            log.info("clients are served", clusters=reached)
        else:
            log.warning("clients are let in, but no upstream cluster is reached yet", clusters=reached)

    async def stop_on_signal(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self.stopping.is_set():
                    log.warning("stopped at once, by a second signal", signal=number.name)
                    scope.cancel()
                    return
                log.info("stopping", signal=number.name)
                self._readiness.stopping = True
                self.stopping.set()

    async def drain(self) -> None:
        """Let members commit what they hold; then stop accepting, answer what waits, commit, leave upstream."""
        for server in self._servers:
            server.begin_stop(_grace(self._config))
        for server in self._servers:
            await server.drained()
        for listener in self._listeners:
            listener.close()
        for server in self._servers:
            server.drain()
            server.close_connections()
        for server in self._servers:
            await server.engines.closed()
        for catalog in self._catalogs.values():
            catalog.close()
        for writer in self._writers.values():
            writer.close()
        if self._journal is not None:
            await self._journal.close()

    def _security(self) -> dict[str, ListenerSetup]:
        for warning in warnings_of(self._config):
            log.warning("the configuration is used as it is, and had better be changed", detail=str(warning))
        setups: dict[str, ListenerSetup] = {}
        problems: list[Mistake] = []
        for index, configured in enumerate(self._config.virtual_clusters):
            try:
                setups[configured.name] = ListenerSetup(configured, ("virtual_clusters", index))
            except ConfigurationError as problem:
                problems += problem.mistakes
        if problems:
            raise ConfigurationError(problems)
        return setups

    async def _serve_admin(self, tasks: anyio.abc.TaskGroup, configured: Admin) -> None:
        context: ssl.SSLContext | None = None
        if configured.tls is not None:
            watched = admin_certificate(configured.tls)
            context = watched.context
            self._watched.append(watched.files)
        access = AdminAccess(configured.token, configured.open_probes, context)
        addresses: dict[str, str] = {each.name: each.bootstrap_servers for each in self._config.clusters}
        is_open = configured.token is not None or _is_loopback(configured.listen.host)
        self._readiness.may_drain = is_open
        leases = LeaseApi(self._servers, addresses, is_open)
        serve = partial(serve_admin, access=access, routes=leases.routes())
        await tasks.start(serve, configured.listen, self._readiness, self._metrics)

    def _server(self, configured: VirtualClusterConfig, security: ListenerSecurity) -> VirtualClusterServer:
        pool = configured.target.pool
        cluster = VirtualCluster(
            configured.name,
            topics_of(configured.name, pool),
            rules_of(pool),
            settings_of(pool, time.time() - asyncio.get_running_loop().time(), self._journal is not None),
            self._memory,
            random.Random(),
        )
        listen, coordinator = configured.advertised_listen, configured.advertised_coordinator
        endpoint = Endpoint(
            f"kafka-mesh.{configured.name}",
            Address(listen.host, listen.port),
            Address(coordinator.host, coordinator.port),
        )
        clusters = {cluster.name: cluster for cluster in self._config.clusters}

        def create(group: GroupId, name: ClusterName, deliver: Callable[[EngineEvent], None]) -> Engine:
            return self._engine(configured.name, pool, clusters[name], group, deliver)

        def refresh() -> None:
            for name in clusters_of(pool):
                self._catalogs[name].refresh_soon()

        bury: Bury = bury_nothing
        if (dead := pool.dead_letters) is not None:
            bury = DeadLetterOffice(dead.topic, lambda name: self._writer(clusters[name], create=dead.create)).bury
        upstream = {
            name: {**properties_of(clusters[name]), "bootstrap.servers": clusters[name].bootstrap_servers}
            for name in clusters_of(pool)
        }
        administration = UpstreamAdministration(upstream, pool.upstream_group_prefix)
        gate = Gate(limits_of(configured.limits), self._descriptors, self._memory)
        return VirtualClusterServer(
            cluster,
            endpoint,
            self._metrics,
            create,
            refresh,
            self._troubles,
            administration,
            bury,
            self._journal,
            security,
            gate=gate,
        )

    def _keep_journal(self) -> Journal | None:
        kept = self._config.journal
        if kept is None:
            return None
        cluster = next(each for each in self._config.clusters if each.name == kept.cluster)
        loop = asyncio.get_running_loop()

        def tell(reason: str) -> None:
            log.warning("the journal cannot be written", cluster=cluster.name, topic=kept.topic, reason=reason)

        names = self._config.process_id or "", uuid4().hex
        place = cluster.bootstrap_servers, properties_of(cluster), kept.topic, kept.create
        return Journal(JournalWriter(*place, *names, tell, loop), self._metrics, loop, kept.interval, kept.limit)

    def _writer(self, cluster: Cluster, *, create: bool) -> DeadLetterWriter:
        writer = self._writers.get((cluster.name, create))
        if writer is None:
            loop = asyncio.get_running_loop()
            writer = DeadLetterWriter(cluster.bootstrap_servers, properties_of(cluster), create, loop)
            self._writers[cluster.name, create] = writer
        return writer

    def _engine(
        self, name: str, pool: PoolConfig, cluster: Cluster, group: GroupId, deliver: Callable[[EngineEvent], None]
    ) -> Engine:
        process = self._config.process_id
        options = EngineOptions(
            cluster.name,
            cluster.bootstrap_servers,
            properties_of(cluster),
            pool.upstream_group_prefix + group,
            f"kafka-mesh.{process}.{name}.{group}" if process is not None else None,
            pool.start.value,
            pool.isolation.value,
            pool.budgets.pool // 4,  # what was fetched and is not in the backlog yet counts too
        )

        def counted(event: EngineEvent) -> None:
            if isinstance(event, Received):
                self._metrics.carried(cluster.name, event.engine, event.batches)
            deliver(event)

        return make_engine(self._engines[cluster.name], options, counted, self._buffers)

    def _choose_engine(self, cluster: Cluster) -> EngineName:
        choice = choose(cluster.engine.value, properties_of(cluster))
        if choice.reason:
            log.warning("a cluster is read by librdkafka", cluster=cluster.name, reason=choice.reason)
        return choice.engine

    def _catalog_event(self, event: CatalogEvent) -> None:
        self._looked[event.cluster].set()
        match event:
            case CatalogUpdate(cluster, topics):
                found(self._troubles, cluster, topics, self._configured(cluster))
                if self._found is not None:
                    self._found[cluster] = topics
                else:
                    self._tell_topics(cluster, topics)
            case CatalogUnreachable(cluster, reason, trouble):
                not_reached(self._troubles, cluster, trouble, reason)

    def _configured(self, cluster: ClusterName) -> set[TopicName]:
        """The topics that the configuration names on a cluster."""
        rules = [rule for each in self._config.virtual_clusters for rule in each.target.pool.topics]
        sources = [source for rule in rules if isinstance(rule, NamedTopic) for source in rule.sources]
        return {TopicName(source.topic) for source in sources if source.cluster == cluster}

    def _number_partitions(self) -> None:
        """Partitions of several clusters are numbered in the order of the configuration, not in that of the answers; a
        cluster that has not answered by now comes last."""
        found, self._found = self._found or {}, None
        for cluster in self._config.clusters:
            if cluster.name in found:
                self._tell_topics(cluster.name, found[cluster.name])

    def _tell_topics(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        for server in self._servers:
            server.topics_changed(cluster, topics)

    async def _bind(
        self,
        server: VirtualClusterServer,
        index: int,
        key: Literal["listen", "coordinator"],
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """Take the address at once; clients are let in when the topics are known."""
        address = getattr(self._config.virtual_clusters[index], key)
        try:
            listener = await asyncio.get_running_loop().create_server(
                server.accept, address.host, address.port, backlog=1024, reuse_address=True, start_serving=False
            )
        except OSError as problem:
            mistake = Mistake(("virtual_clusters", index, key), str(address), f"an address that is free ({problem})")
            raise ConfigurationError([mistake]) from problem
        encrypted = server.security.tls is not None
        self._listeners.append(TlsListener(listener, server, tasks) if encrypted else listener)
        log.info("listening", virtual_cluster=server.name, role=key, address=str(address))


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _descriptors(wanted: int) -> Descriptors:
    """Take all that this process may have. wanted: connections that the configuration allows."""
    descriptors = Descriptors(raise_descriptor_limit())
    fields = {"descriptors": descriptors.available, "connections": descriptors.for_clients}
    if descriptors.for_clients < wanted:
        log.warning("open files suffice for fewer connections than are configured", **fields)
    else:
        log.info("open files are limited", **fields)
    return descriptors


def _grace(config: Config) -> float:
    """Seconds that members have to commit; to leave the upstream groups takes its time, too."""
    return min(config.drain_grace, config.drain_timeout * 0.6)
