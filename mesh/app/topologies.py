"""The topology descriptions of a virtual cluster, as they are configured."""

from __future__ import annotations

from mesh.app.configured_target import Services
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import VirtualClusterConfig
from mesh.runtime.topologies.topologies import Topologies
from mesh.topology_plugins.types import make_plugin


def topologies_of(configured: VirtualClusterConfig, services: Services) -> Topologies | None:
    """None if none are served. Raises ConfigurationError for a plugin that cannot begin."""
    described = configured.topology_descriptions
    if described is None:
        return None
    assert services.store is not None, "as was checked"
    try:
        plugin = make_plugin(described.plugin, described.options, configured.name, services.store)
    except Exception as problem:
        allowed = f"what the plugin can begin with: {type(problem).__name__}: {problem}"
        path = ("virtual_clusters", configured.name, "topology_descriptions", "options")
        raise ConfigurationError([Mistake(path, "", allowed)]) from problem
    return Topologies(configured.name, services.store, plugin, plugin_name=described.plugin)
