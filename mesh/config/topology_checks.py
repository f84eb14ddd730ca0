"""What `topology_descriptions` must be together with the store, the target and the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

from mesh.config.finding import Finding, Missing
from mesh.config.mistakes import KeyPath
from mesh.config.model import Config, RelayTargetConfig, VirtualClusterConfig
from mesh.config.topologies import TopologyDescriptionsConfig
from mesh.config.validation import allowed_by, keys_in, value_at
from mesh.topology_plugins.types import UnknownPlugin, plugin_class

_NEEDED: Final = frozenset(
    {"STREAMS_GROUP_HEARTBEAT", "STREAMS_GROUP_DESCRIBE", "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE"}
)


def check_topologies(config: Config) -> Iterator[Finding]:
    for index, each in enumerate(config.virtual_clusters):
        if each.topology_descriptions is not None:
            path: KeyPath = ("virtual_clusters", index, "topology_descriptions")
            if config.store is None:
                allowed = "with store, {cluster: NAME, topic: NAME}: what is known of descriptions is kept there"
                yield Finding(path, {}, allowed, (("store",),))
            yield from _target(each, path)
            yield from _plugin(each.topology_descriptions, path)


def _target(virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    target = virtual_cluster.target
    if not isinstance(target, RelayTargetConfig):
        allowed = "left out: topology descriptions are served in relays; pools have no streams groups, routers not yet"
        yield Finding(path, {}, allowed, ((*path[:-1], "target"),))
        return
    if virtual_cluster.authorization is not None:
        allowed = "left out with authorization: topology descriptions are served in relays without rules only, so far"
        yield Finding(path, {}, allowed, ((*path[:-1], "authorization"),))
    for index, name in enumerate(target.relay.refuse):
        if name in _NEEDED:
            allowed = "an API that topology_descriptions does not need"
            yield Finding((*path[:-1], "target", "relay", "refuse", index), name, allowed, (path,))


def _plugin(configured: TopologyDescriptionsConfig, path: KeyPath) -> Iterator[Finding]:
    try:
        kind = plugin_class(configured.plugin)
    except UnknownPlugin as problem:
        yield Finding((*path, "plugin"), configured.plugin, str(problem))
        return
    try:
        kind.options.model_validate(configured.options)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            keys = keys_in(configured.options, details)
            value: Any = Missing() if details["type"] == "missing" else value_at(configured.options, keys)
            yield Finding((*path, "options", *keys), value, allowed_by(kind.options, details), ((*path, "plugin"),))
