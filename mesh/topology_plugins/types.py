"""The plugins, by their names in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mesh.streams.spi import TopologyPlugin
from mesh.topology_plugins.http import HttpPlugin
from mesh.topology_plugins.in_store import StorePlugin
from mesh.topology_plugins.memory import MemoryPlugin
from mesh.upstream.store.store import Store

ENTRY_POINTS: Final = "kafka_mesh.topology_plugins"
SHIPPED: Final[Mapping[str, type[TopologyPlugin]]] = MappingProxyType(
    {"http": HttpPlugin, "memory": MemoryPlugin, "store": StorePlugin}
)

PluginClass: TypeAlias = type[TopologyPlugin]


class UnknownPlugin(Exception):
    """Raised for a plugin that does not exist, or cannot be used. The message names the existing ones."""


def plugin_class(name: str) -> PluginClass:
    """Returns the class of a plugin. Raises UnknownPlugin."""
    if name in SHIPPED:
        return SHIPPED[name]
    found = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        others = ", ".join(sorted(found)) or "none are installed"
        raise UnknownPlugin(f"{', '.join(sorted(SHIPPED))}, or an entry point of {ENTRY_POINTS}: {others}")
    return _loaded(found[name])


def make_plugin(name: str, options: Mapping[str, Any], virtual_cluster: str, store: Store) -> TopologyPlugin:
    """Makes a plugin. Raises UnknownPlugin, ValidationError, and any exception of the plugin's own code."""
    kind = plugin_class(name)
    read = kind.options.model_validate(options)
    return StorePlugin(read, virtual_cluster, store) if kind is StorePlugin else kind(read, virtual_cluster)


@cache
def _loaded(entry_point: EntryPoint) -> PluginClass:
    try:
        loaded = entry_point.load()
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise UnknownPlugin(f"a plugin that can be loaded; {entry_point.value} cannot: {text}") from problem
    if not (isinstance(loaded, type) and issubclass(loaded, TopologyPlugin)):
        raise UnknownPlugin(f"a plugin; {entry_point.value} is no class that extends TopologyPlugin")
    return loaded
