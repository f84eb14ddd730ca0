"""The upstream clusters of a process: their topics, engines and writers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from mesh.app.cluster_settings import ClusterSettings
from mesh.app.from_config import properties_of, start_of
from mesh.app.prepared_clusters import PreparedClusters, prepare_clusters
from mesh.config.model import Cluster, Config
from mesh.config.pool import NamedTopic, PoolConfig
from mesh.listener.watched_files import Watched
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import ShareSettings
from mesh.records.spans import ClusterName, TopicName
from mesh.telemetry.logs import get_logger
from mesh.telemetry.problem_watch import found, not_reached
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, CatalogUpdate, TopicCatalog
from mesh.upstream.engine import Engine, EngineEvent, EngineOptions
from mesh.upstream.engine_choice import EngineChoice, make_engine
from mesh.upstream.librdkafka_properties import Properties
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.logins import LoginRefusal
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.writers.dead_letters import DeadLetterWriter

log = get_logger(__name__)

LOGINS: Final = "logins"
"""The part that reports the logins of the mesh's own connections."""
FIRST_ANSWERS = 6.0
"""Seconds for which clients wait for clusters at the start. A cluster that has not answered by then joins later."""


class UpstreamClusters:
    """The upstream clusters of the process: their catalogs, engines and writers. report: called when the topics of a
    cluster have changed. watched: the watched files of the process."""

    def __init__(
        self,
        config: Config,
        upstream_health: UpstreamHealth,
        report: Callable[[ClusterName, Mapping[TopicName, int]], None],
        watched: list[Watched[Any]],
    ) -> None:
        self.files_changed: Callable[[ClusterName], object] = lambda _: None
        """Called when the content of the files of a cluster's properties has changed, and is in use."""
        self._upstream_health = upstream_health
        self._report = report
        self._config = config
        self._by_name = _by_name(config)
        self._settings = ClusterSettings(watched, self._login_reported, lambda name: self.files_changed(name))
        self._engines: dict[ClusterName, EngineChoice] = {}
        self._buffers = ReceiveBuffers(config.budget // 2)
        self._catalogs: dict[ClusterName, TopicCatalog] = {}
        self._answered: dict[ClusterName, asyncio.Event] = {}
        self._known: dict[ClusterName, Mapping[TopicName, int]] = {}
        self._writers: dict[tuple[ClusterName, bool], DeadLetterWriter] = {}
        self._is_silent = True
        """True until the first look has ended: results are kept, and not reported."""
        self.topics_known: Final = asyncio.Event()
        """Set when the first look has ended: pools know the topics of all clusters that answered."""
        self.addresses = {name: cluster.bootstrap_servers for name, cluster in self._by_name.items()}
        """The bootstrap servers of each cluster. It stays the same dictionary for the life of the process."""

    async def prepare(
        self, config: Config, connected: Collection[ClusterName], linked: Collection[ClusterName]
    ) -> PreparedClusters:
        """Does `prepare_clusters` in a thread."""
        return await run_sync(prepare_clusters, config, connected, linked, self._settings, abandon_on_cancel=True)

    def begin(self, prepared: PreparedClusters) -> None:
        """Takes over all clusters at the start."""
        self.take(prepared)
        for name in self._by_name:
            self._choose(name, prepared.choices[name])

    async def learn_topics(self) -> None:
        """Learns the topics of all clusters. Partitions of several clusters are numbered in the order of the
        configuration, not in that of the answers; a cluster that has not answered in time comes last."""
        for name in self._by_name:
            self._watch(name)
        await self.until_answered(self._by_name)
        self._is_silent = False
        for name in self._by_name:
            if name in self._known:
                self._report(name, self._known[name])
        self.topics_known.set()

    def take(self, prepared: PreparedClusters) -> None:
        """Uses the settings of prepared clusters for connections that begin from now on."""
        self._settings.keep(prepared.read)

    def change(self, config: Config, prepared: PreparedClusters) -> list[ClusterName]:
        """Connects to clusters as in a changed configuration: to those for which engines are prepared, and which have
        changed connections or are new. Returns the names of these. If it is called again after a failure, it does the
        rest."""
        before, self._config, self._by_name = self._by_name, config, _by_name(config)
        for name in before:
            if name not in self._by_name or name in prepared.choices:
                self._drop(name)
            if name not in self._by_name:
                self._settings.drop(name)
        self._upstream_health.clusters = tuple(self._by_name)
        for catalog in self._catalogs.values():
            catalog.interval = config.metadata_refresh
        self._buffers.limit = config.budget // 2
        added = [name for name in self._by_name if name not in self._catalogs]
        for name in added:
            self._choose(name, prepared.choices[name])
            self.addresses[name] = self._by_name[name].bootstrap_servers
            self._watch(name)
        return added

    def unconnected(self, config: Config) -> set[ClusterName]:
        """Returns the clusters of a configuration that are not connected to yet."""
        return {ClusterName(cluster.name) for cluster in config.clusters} - self._catalogs.keys()

    def known(self) -> Mapping[ClusterName, Mapping[TopicName, int]]:
        """Returns the topics of all clusters that answered, in the order of the configuration."""
        return {name: self._known[name] for name in self._by_name if name in self._known}

    def refresh(self, names: Iterable[ClusterName]) -> None:
        """Refreshes the topics of these clusters soon."""
        for name in names:
            self._catalogs[name].refresh_soon()

    def properties(self, names: Iterable[ClusterName]) -> dict[ClusterName, Properties]:
        """Returns the properties of a client of each of these clusters."""
        clusters = {name: self._by_name[name] for name in names}
        return {
            name: {**properties_of(each), "bootstrap.servers": each.bootstrap_servers}
            for name, each in clusters.items()
        }

    def settings_of(self, name: ClusterName) -> ConnectionSettings | None:
        """Returns the settings of the mesh's own connections to a cluster; None if its properties allow none."""
        return self._settings[name] if self._engines[name].settings is not None else None

    def cluster_with_settings(self, name: ClusterName) -> tuple[Cluster, ConnectionSettings]:
        """Returns a cluster, and the settings of the mesh's own connections to it, as `take` has kept them."""
        return self._by_name[name], self._settings[name]

    @property
    def interval(self) -> float:
        """Seconds between two looks at a cluster."""
        return self._config.metadata_refresh

    def writer(self, name: ClusterName, *, create: bool) -> DeadLetterWriter:
        """Returns the writer of dead letters to a cluster. create: whether it creates missing topics."""
        writer = self._writers.get((name, create))
        if writer is None:
            cluster = self._by_name[name]
            loop = asyncio.get_running_loop()
            writer = DeadLetterWriter(cluster.bootstrap_servers, properties_of(cluster), create, loop, name)
            self._writers[name, create] = writer
        return writer

    def engine(
        self,
        virtual_cluster: str,
        pool: PoolConfig,
        name: ClusterName,
        group: GroupId,
        deliver: Callable[[EngineEvent], None],
        share: ShareSettings | None,
    ) -> Engine:
        """Makes an engine that reads a cluster for a group. share: the settings of a group with share members, else
        None."""
        cluster, process = self._by_name[name], self._config.process_id
        options = EngineOptions(
            cluster.name,
            cluster.bootstrap_servers,
            properties_of(cluster),
            pool.upstream_group_prefix + group,
            f"kafka-mesh.{process}.{virtual_cluster}.{group}" if process is not None else None,
            start_of(pool, share),
            share.isolation if share is not None else pool.isolation.value,
            pool.budgets.pool // 4,  # fetched batches that are not in the backlog yet count too
            settings=self.settings_of(name),
        )
        return make_engine(self._engines[name].engine, options, deliver, self._buffers)

    def close(self) -> None:
        """Closes all of them. Raises the last error if some cannot be closed."""
        with ExitStack() as closing:
            closing.callback(self._settings.close)
            for catalog in self._catalogs.values():
                closing.callback(catalog.close)
            for writer in self._writers.values():
                closing.callback(writer.close)

    def _choose(self, name: ClusterName, choice: EngineChoice) -> None:
        self._engines[name] = choice
        if choice.reason:
            log.warning("cluster read by librdkafka", cluster=name, reason=choice.reason)

    def _watch(self, name: ClusterName) -> None:
        cluster, loop = self._by_name[name], asyncio.get_running_loop()
        self._answered[name] = asyncio.Event()
        self._catalogs[name] = TopicCatalog(
            name,
            cluster.bootstrap_servers,
            properties_of(cluster),
            self._config.metadata_refresh,
            self._catalog_event,
            loop,
        )

    async def until_answered(self, names: Iterable[ClusterName]) -> None:
        """Waits until these clusters have answered, or the time for that is over."""
        with anyio.move_on_after(FIRST_ANSWERS):
            for name in names:
                await self._answered[name].wait()
        for name in names:
            if not self._upstream_health.has_reached(name) and self._upstream_health.connection(name) is None:
                not_reached(
                    self._upstream_health, name, UpstreamProblem.UNREACHABLE, f"no answer within {FIRST_ANSWERS:g} s"
                )

    def _drop(self, name: ClusterName) -> None:
        if (catalog := self._catalogs.pop(name, None)) is not None:
            catalog.close()
        for key in [key for key in self._writers if key[0] == name]:
            self._writers.pop(key).close()
        for kept in (self._answered, self._known, self._engines, self.addresses):
            kept.pop(name, None)
        self._upstream_health.forget_cluster(name)
        self._settings.forget_refusal(name)

    def _catalog_event(self, event: CatalogEvent) -> None:
        self._answered[event.cluster].set()
        match event:
            case CatalogUpdate(cluster, topics):
                found(self._upstream_health, cluster, topics, self._configured(cluster))
                self._known[cluster] = topics
                if not self._is_silent:
                    self._report(cluster, topics)
            case CatalogUnreachable(cluster, reason, problem):
                not_reached(self._upstream_health, cluster, problem, self._settings.explained(cluster, problem, reason))

    def _login_reported(self, name: ClusterName, refusal: LoginRefusal | None) -> None:
        if refusal is None:
            self._upstream_health.end(UpstreamProblem.CREDENTIALS, name, part=LOGINS)
            return
        reason = self._settings.explained(name, refusal.problem, refusal.reason)
        self._upstream_health.begin(refusal.problem, name, reason, part=LOGINS)
        if name in self._catalogs:
            self._catalogs[name].connect_soon()

    def _configured(self, cluster: ClusterName) -> set[TopicName]:
        """Returns the topics that the configuration names on a cluster."""
        rules = [rule for pool in self._config.all_pools() for rule in pool.topics]
        sources = [source for rule in rules if isinstance(rule, NamedTopic) for source in rule.sources]
        return {TopicName(source.topic) for source in sources if source.cluster == cluster}


def _by_name(config: Config) -> dict[ClusterName, Cluster]:
    return {cluster.name: cluster for cluster in config.clusters}
