"""Prepares the upstream clusters of a configuration: reads the files of their properties, and tries these on
librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from mesh.app.cluster_settings import ClusterSettings, ReadSettings
from mesh.app.from_config import properties_of
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Cluster, Config
from mesh.records.spans import ClusterName
from mesh.security.client_properties import TOKENS
from mesh.upstream.engine import EngineOptions
from mesh.upstream.engine_choice import EngineChoice, choose
from mesh.upstream.librdkafka_properties import connection_properties, consumer_properties
from mesh.upstream.links.connection_settings import connection_settings_or_reason
from mesh.upstream.property_files import check_files

_BUFFER = 1 << 20


@dataclass(frozen=True, slots=True)
class PreparedClusters:
    """Clusters of a configuration that may be connected to. choices: the engines of clusters that get new connections.
    read: the settings of the mesh's own connections to these, and to those that targets connect to."""

    choices: Mapping[ClusterName, EngineChoice]
    read: Mapping[ClusterName, ReadSettings]


def prepare_clusters(
    config: Config, connected: Collection[ClusterName], linked: Collection[ClusterName], kept: ClusterSettings
) -> PreparedClusters:
    """Prepares clusters of a configuration. It reads files, so call it in a thread.

    connected: the clusters that get new connections. linked: the clusters to which targets have the mesh's own
    connections. kept: reads files. Raises ConfigurationError if a file is unusable, or if librdkafka refuses the
    properties.
    """
    choices: dict[ClusterName, EngineChoice] = {}
    read: dict[ClusterName, ReadSettings] = {}
    mistakes: list[Mistake] = []
    for index, cluster in enumerate(config.clusters):
        if cluster.name not in connected and cluster.name not in linked:
            continue
        settings = connection_settings_or_reason(properties_of(cluster))
        problem = settings if isinstance(settings, str) and cluster.name in linked else ""
        if not problem:
            own = settings if not isinstance(settings, str) else None
            read[cluster.name] = kept.read(cluster.name, own, properties_of(cluster))
        if cluster.name in connected:
            choices[cluster.name] = choose(cluster.engine.value, settings)
            problem = problem or _refusal(cluster)
        if problem:
            mistakes.append(Mistake(("clusters", index, "properties"), "", problem))
    if mistakes:
        raise ConfigurationError(mistakes)
    return PreparedClusters(choices, read)


def _refusal(cluster: Cluster) -> str:
    """Returns why librdkafka refuses the properties; "" if it takes them. Its clients are thrown away, and connect to
    nothing: they have no bootstrap servers. They have no source of tokens either, since they would wait for one."""
    properties = {name: value for name, value in properties_of(cluster).items() if name != TOKENS}
    options = EngineOptions(
        cluster.name, "", properties, "kafka-mesh-check", None, "earliest", "read_committed", _BUFFER
    )
    connecting = {**connection_properties(properties), "log_level": 0}
    reading = {**consumer_properties(options), "log_level": 0}
    del reading["bootstrap.servers"]
    clients: tuple[Callable[[], Any], ...] = (
        lambda: check_files(properties),
        lambda: AdminClient(connecting),
        lambda: Producer(connecting),
        lambda: Consumer(reading).close(),
    )
    for make in clients:
        try:
            make()
        except KafkaException as problem:
            return f"properties that librdkafka takes: {problem.args[0].str()}"
    return ""
