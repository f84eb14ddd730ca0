"""The upstream clusters of a process: what topics they have, and what is made to read them and to write to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import anyio

from mesh.app.from_config import properties_of, start_of
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Cluster, Config
from mesh.config.pool import NamedTopic
from mesh.config.pool import PoolConfig as PoolConfig
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import ShareStart
from mesh.records.spans import ClusterName, TopicName
from mesh.telemetry.logs import get_logger
from mesh.telemetry.problem_watch import found, not_reached
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.catalog import CatalogEvent, CatalogUnreachable, CatalogUpdate, TopicCatalog
from mesh.upstream.engine import Engine, EngineEvent, EngineName, EngineOptions
from mesh.upstream.engine_choice import choose, make_engine
from mesh.upstream.librdkafka_properties import Properties
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import ConnectionSettings, own_access
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.writers.dead_letters import DeadLetterWriter

log = get_logger(__name__)

FIRST_LOOK = 6.0
"""Seconds to wait for clusters before clients are let in; who has not answered by then comes later."""


class Clusters:
    """The upstream clusters of the process: their catalogs, engines and writers. tell: the topics of a cluster have
    changed."""

    def __init__(
        self,
        config: Config,
        upstream_health: UpstreamHealth,
        tell: Callable[[ClusterName, Mapping[TopicName, int]], None],
    ) -> None:
        self._upstream_health = upstream_health
        self._tell = tell
        self._config = config
        self._by_name = _by_name(config)
        self._engines = {name: _choose_engine(cluster) for name, cluster in self._by_name.items()}
        self._buffers = ReceiveBuffers(config.budget // 2)
        self._catalogs: dict[ClusterName, TopicCatalog] = {}
        self._looked: dict[ClusterName, asyncio.Event] = {}
        self._known: dict[ClusterName, Mapping[TopicName, int]] = {}
        self._access: dict[ClusterName, ConnectionSettings] = {}
        self._writers: dict[tuple[ClusterName, bool], DeadLetterWriter] = {}
        self._is_silent = True
        """Whether what is found is only taken note of: before the first look has ended."""
        self.are_looked_at: Final = asyncio.Event()
        """Pools know their topics, as far as clusters have said them: the first look has ended."""
        self.addresses = {name: cluster.bootstrap_servers for name, cluster in self._by_name.items()}
        """Of each cluster; the same dictionary for as long as the process runs."""

    async def first_look(self) -> None:
        """Find out which topics there are. Partitions of several clusters are numbered in the order of the
        configuration, not in that of the answers; a cluster that has not answered in time comes last."""
        for name in self._by_name:
            self._watch(name)
        await self._until_looked(self._by_name)
        self._is_silent = False
        for name in self._by_name:
            if name in self._known:
                self._tell(name, self._known[name])
        self.are_looked_at.set()

    async def change(self, config: Config, anew: Iterable[ClusterName]) -> None:
        """anew: clusters that are connected to in another way than before. Returns when those have been looked at, and
        those that are new."""
        before, self._config, self._by_name = self._by_name, config, _by_name(config)
        for name in before:
            if name not in self._by_name or name in anew:
                self._drop(name)
        self._upstream_health.clusters = tuple(self._by_name)
        for catalog in self._catalogs.values():
            catalog.interval = config.metadata_refresh
        self._buffers.limit = config.budget // 2
        fresh = [name for name in self._by_name if name not in self._catalogs]
        for name in fresh:
            self._engines[name] = _choose_engine(self._by_name[name])
            self.addresses[name] = self._by_name[name].bootstrap_servers
            self._watch(name)
        await self._until_looked(fresh)

    def known(self) -> Mapping[ClusterName, Mapping[TopicName, int]]:
        """The topics of all clusters that could be asked, in the order of the configuration."""
        return {name: self._known[name] for name in self._by_name if name in self._known}

    def refresh(self, names: Iterable[ClusterName]) -> None:
        """Look at the topics of these soon."""
        for name in names:
            self._catalogs[name].refresh_soon()

    def properties(self, names: Iterable[ClusterName]) -> dict[ClusterName, Properties]:
        """What a client of each of these is made with."""
        clusters = {name: self._by_name[name] for name in names}
        return {
            name: {**properties_of(each), "bootstrap.servers": each.bootstrap_servers}
            for name, each in clusters.items()
        }

    def admit(self, access: Mapping[ClusterName, ConnectionSettings]) -> None:
        """access: to those to which new targets have connections of their own (`access_to`)."""
        self._access |= access

    def access(self, name: ClusterName) -> tuple[Cluster, ConnectionSettings]:
        """A cluster, and how connections of our own to it are made, as it was admitted."""
        return self._by_name[name], self._access[name]

    @property
    def interval(self) -> float:
        """Seconds between two looks at a cluster."""
        return self._config.metadata_refresh

    def writer(self, name: ClusterName, *, create: bool) -> DeadLetterWriter:
        """create: whether it makes topics that are not there."""
        writer = self._writers.get((name, create))
        if writer is None:
            cluster = self._by_name[name]
            loop = asyncio.get_running_loop()
            writer = DeadLetterWriter(cluster.bootstrap_servers, properties_of(cluster), create, loop)
            self._writers[name, create] = writer
        return writer

    def engine(
        self,
        virtual_cluster: str,
        pool: PoolConfig,
        name: ClusterName,
        group: GroupId,
        deliver: Callable[[EngineEvent], None],
        *,
        start: ShareStart,
    ) -> Engine:
        """start: of a group that has committed nothing."""
        cluster, process = self._by_name[name], self._config.process_id
        options = EngineOptions(
            cluster.name,
            cluster.bootstrap_servers,
            properties_of(cluster),
            pool.upstream_group_prefix + group,
            f"kafka-mesh.{process}.{virtual_cluster}.{group}" if process is not None else None,
            start_of(pool, start),
            pool.isolation.value,
            pool.budgets.pool // 4,  # what was fetched and is not in the backlog yet counts too
        )
        return make_engine(self._engines[name], options, deliver, self._buffers)

    def close(self) -> None:
        for catalog in self._catalogs.values():
            catalog.close()
        for writer in self._writers.values():
            writer.close()

    def _watch(self, name: ClusterName) -> None:
        cluster, loop = self._by_name[name], asyncio.get_running_loop()
        self._looked[name] = asyncio.Event()
        self._catalogs[name] = TopicCatalog(
            name,
            cluster.bootstrap_servers,
            properties_of(cluster),
            self._config.metadata_refresh,
            self._catalog_event,
            loop,
        )

    async def _until_looked(self, names: Iterable[ClusterName]) -> None:
        with anyio.move_on_after(FIRST_LOOK):
            for name in names:
                await self._looked[name].wait()
        for name in names:
            if not self._upstream_health.has_reached(name) and self._upstream_health.connection(name) is None:
                not_reached(
                    self._upstream_health, name, UpstreamProblem.UNREACHABLE, f"no answer within {FIRST_LOOK:g} s"
                )

    def _drop(self, name: ClusterName) -> None:
        self._catalogs.pop(name).close()
        for key in [key for key in self._writers if key[0] == name]:
            self._writers.pop(key).close()
        for kept in (self._looked, self._known, self._engines, self.addresses):
            kept.pop(name, None)
        self._upstream_health.forget_cluster(name)

    def _catalog_event(self, event: CatalogEvent) -> None:
        self._looked[event.cluster].set()
        match event:
            case CatalogUpdate(cluster, topics):
                found(self._upstream_health, cluster, topics, self._configured(cluster))
                self._known[cluster] = topics
                if not self._is_silent:
                    self._tell(cluster, topics)
            case CatalogUnreachable(cluster, reason, problem):
                not_reached(self._upstream_health, cluster, problem, reason)

    def _configured(self, cluster: ClusterName) -> set[TopicName]:
        """The topics that the configuration names on a cluster."""
        rules = [rule for pool in self._config.all_pools() for rule in pool.topics]
        sources = [source for rule in rules if isinstance(rule, NamedTopic) for source in rule.sources]
        return {TopicName(source.topic) for source in sources if source.cluster == cluster}


def access_to(config: Config, names: Collection[ClusterName]) -> dict[ClusterName, ConnectionSettings]:
    """How connections of our own to these are made. Raises ConfigurationError if files that they need cannot be used;
    of anything else the configuration was checked."""
    found: dict[ClusterName, ConnectionSettings] = {}
    mistakes: list[Mistake] = []
    for index, cluster in enumerate(config.clusters):
        if cluster.name in names:
            access = own_access(properties_of(cluster))
            if isinstance(access, str):
                mistakes.append(Mistake(("clusters", index, "properties"), "", access))
            else:
                found[cluster.name] = access
    if mistakes:
        raise ConfigurationError(mistakes)
    return found


def _by_name(config: Config) -> dict[ClusterName, Cluster]:
    return {cluster.name: cluster for cluster in config.clusters}


def _choose_engine(cluster: Cluster) -> EngineName:
    choice = choose(cluster.engine.value, properties_of(cluster))
    if choice.reason:
        log.warning("a cluster is read by librdkafka", cluster=cluster.name, reason=choice.reason)
    return choice.engine
