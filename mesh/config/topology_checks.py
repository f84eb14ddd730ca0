"""Checks of `topology_descriptions` together with the store, the target and the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, assert_never

from pydantic import ValidationError

from mesh.config.finding import Finding, Missing
from mesh.config.graphs import configured
from mesh.config.mistakes import KeyPath
from mesh.config.model import Config, PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.router_types import UnknownRouterType
from mesh.config.routers import RouterTargetConfig
from mesh.config.topologies import TopologyDescriptionsConfig
from mesh.config.validation import allowed_by, keys_in, value_at
from mesh.routing.graph import Decides
from mesh.routing.names import RouterName
from mesh.topology_plugins.types import UnknownPlugin, plugin_class

_NEEDED: Final = frozenset(
    {"STREAMS_GROUP_HEARTBEAT", "STREAMS_GROUP_DESCRIBE", "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE"}
)


def check_topologies(config: Config) -> Iterator[Finding]:
    for index, each in enumerate(config.virtual_clusters):
        if each.topology_descriptions is not None:
            path: KeyPath = ("virtual_clusters", index, "topology_descriptions")
            if config.store is None:
                allowed = "with store, {cluster: NAME, topic: NAME}: the mesh keeps descriptions there"
                yield Finding(path, {}, allowed, (("store",),))
            yield from _target(config, each, path)
            yield from _plugin(each.topology_descriptions, path)


def _target(config: Config, virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    at: KeyPath = (*path[:-1], "target")
    match virtual_cluster.target:
        case PoolTargetConfig():
            yield Finding(path, {}, "left out: pools have no streams groups", (at,))
        case RelayTargetConfig(relay=relay):
            for index, name in enumerate(relay.refuse):
                if name in _NEEDED:
                    allowed = "an API that topology_descriptions does not need"
                    yield Finding((*at, "relay", "refuse", index), name, allowed, (path,))
        case RouterTargetConfig(router=router):
            if virtual_cluster.is_one_node:
                allowed = (
                    "left out with nodes: one: the clusters' own topology descriptions are served, if they have them"
                )
                yield Finding(path, {}, allowed, ((*path[:-1], "nodes"),))
            elif _decides(config, router.name) is Decides.REQUESTS:
                allowed = "left out: a router that answers each request handles descriptions itself"
                yield Finding(path, {}, allowed, (at,))
        case _:
            assert_never(virtual_cluster.target)


def _decides(config: Config, name: RouterName) -> Decides | None:
    """Returns the criterion by which a router decides; None if the router is missing or wrong, which another check
    reports."""
    found = next((each for each in config.routers if each.name == name), None)
    try:
        return None if found is None else configured(found)[0].decides
    except (UnknownRouterType, ValidationError):
        return None


def _plugin(described: TopologyDescriptionsConfig, path: KeyPath) -> Iterator[Finding]:
    try:
        kind = plugin_class(described.plugin)
    except UnknownPlugin as problem:
        yield Finding((*path, "plugin"), described.plugin, str(problem))
        return
    try:
        kind.options.model_validate(described.options)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            keys = keys_in(described.options, details)
            value: Any = Missing() if details["type"] == "missing" else value_at(described.options, keys)
            yield Finding((*path, "options", *keys), value, allowed_by(kind.options, details), ((*path, "plugin"),))
