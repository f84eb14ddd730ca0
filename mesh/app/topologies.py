"""The topology descriptions of a virtual cluster, built from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mesh.app.configured_target import Services
from mesh.app.target_parts import TargetParts
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.records.spans import ClusterName
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.spi import TopologyPlugin
from mesh.topology_plugins.types import make_plugin
from mesh.upstream.store.store import Store


def plugins_of(
    configured: VirtualClusterConfig, clusters: Collection[ClusterName], store: Store | None
) -> dict[ClusterName | None, TopologyPlugin]:
    """Makes the plugins of a virtual cluster: one for each cluster behind a router, or one for a relay. clusters: those
    behind the virtual cluster. Raises ConfigurationError for a plugin that cannot be made."""
    described = configured.topology_descriptions
    if described is None:
        return {}
    assert store is not None, "as was checked"
    is_relay = isinstance(configured.target, RelayTargetConfig)
    plugins: dict[ClusterName | None, TopologyPlugin] = {}
    for cluster in [None] if is_relay else clusters:
        try:
            plugins[cluster] = make_plugin(described.plugin, described.options, _place(configured, cluster), store)
        except Exception as problem:
            allowed = f"values that the plugin accepts: {type(problem).__name__}: {problem}"
            path = ("virtual_clusters", configured.name, "topology_descriptions", "options")
            raise ConfigurationError([Mistake(path, "", allowed)]) from problem
    return plugins


def topologies_of(configured: VirtualClusterConfig, services: Services) -> Topologies | None:
    """Returns the topologies of a relay; None if it serves none."""
    return None if configured.topology_descriptions is None else _made(configured, services, services.parts, None)


def cluster_topologies_of(
    configured: VirtualClusterConfig, services: Services, parts: Callable[[], TargetParts]
) -> ClusterTopologies | None:
    """Returns the topologies behind a router, or of a relay with rules; None if it serves none. parts: returns the
    current parts of the target."""
    if configured.topology_descriptions is None:
        return None
    is_relay = isinstance(configured.target, RelayTargetConfig)
    return ClusterTopologies(lambda cluster: _made(configured, services, parts(), None if is_relay else cluster))


def _made(
    configured: VirtualClusterConfig, services: Services, parts: TargetParts, cluster: ClusterName | None
) -> Topologies:
    described = configured.topology_descriptions
    assert described is not None and services.store is not None, "as was checked"
    return Topologies(
        configured.name,
        services.store,
        parts.plugins.pop(cluster),
        plugin_name=described.plugin,
        cluster=cluster,
        place=_place(configured, cluster),
    )


def _place(configured: VirtualClusterConfig, cluster: ClusterName | None) -> str:
    return configured.name if cluster is None else f"{configured.name}/{cluster}"
