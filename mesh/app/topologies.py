"""The topology descriptions of a virtual cluster, built from the configuration."""

from __future__ import annotations

from mesh.app.configured_target import Services
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import RelayTargetConfig, VirtualClusterConfig
from mesh.records.spans import ClusterName
from mesh.runtime.entity_router.cluster_topologies import ClusterTopologies
from mesh.runtime.topologies.topologies import Topologies
from mesh.topology_plugins.types import make_plugin


def topologies_of(configured: VirtualClusterConfig, services: Services) -> Topologies | None:
    """Returns the topologies of a relay; None if it serves none. Raises ConfigurationError for a plugin that cannot be
    made."""
    return None if configured.topology_descriptions is None else _made(configured, services, None)


def cluster_topologies_of(configured: VirtualClusterConfig, services: Services) -> ClusterTopologies | None:
    """Returns the topologies behind a router, or of a relay with rules; None if it serves none."""
    if configured.topology_descriptions is None:
        return None
    is_relay = isinstance(configured.target, RelayTargetConfig)
    return ClusterTopologies(lambda cluster: _made(configured, services, None if is_relay else cluster))


def _made(configured: VirtualClusterConfig, services: Services, cluster: ClusterName | None) -> Topologies:
    described = configured.topology_descriptions
    assert described is not None and services.store is not None, "as was checked"
    place = configured.name if cluster is None else f"{configured.name}/{cluster}"
    try:
        plugin = make_plugin(described.plugin, described.options, place, services.store)
    except Exception as problem:
        allowed = f"values that the plugin accepts: {type(problem).__name__}: {problem}"
        path = ("virtual_clusters", configured.name, "topology_descriptions", "options")
        raise ConfigurationError([Mistake(path, "", allowed)]) from problem
    return Topologies(
        configured.name, services.store, plugin, plugin_name=described.plugin, cluster=cluster, place=place
    )
