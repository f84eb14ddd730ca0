"""Compares the running configuration with the next one. It reports keys only, not values.

Names identify clusters and virtual clusters: a renamed one counts as another. docs/reloading.md lists the effect of
each change on connected clients.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from mesh.config.base import Model
from mesh.config.concatenated import moved_partitions
from mesh.config.graphs import graph_of, interceptors_behind, routers_behind
from mesh.config.interceptors import InterceptorConfig
from mesh.config.mistakes import KeyPath, Mistake, format_path, show
from mesh.config.model import Admin, Cluster, Config, PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.relay import NodesConfig, OneNode
from mesh.config.routers import RouterConfig, RouterTargetConfig
from mesh.interceptors.chain import InterceptorName
from mesh.routing.graph import Decides
from mesh.routing.names import RouteName, RouterName

Named = TypeVar("Named", Cluster, InterceptorConfig, RouterConfig, VirtualClusterConfig)
_KEPT: Final = "unchanged: it cannot change while kafka-mesh runs"
_LOGIN: Final = frozenset({"sasl.username", "sasl.password"})
_OF_POOLS: Final = ("target", "pool")
_OF_RELAYS: Final = ("target", "relay")
_OF_ROUTERS: Final = ("target", "router")
_IN_PLACE: Final = frozenset(
    {
        *((key,) for key in ("advertise", "limits", "tls", "sasl", "authorization", "listeners")),
        (*_OF_RELAYS, "refuse"),
        ("nodes", "ports"),
        ("nodes", "ids"),
        *((*_OF_POOLS, key) for key in ("topics", "groups", "max_pools", "group_less", "acknowledge", "start")),
        (*_OF_POOLS, "limits"),
        (*_OF_POOLS, "fairness", "weights"),
    }
)
"""Keys of a virtual cluster that change while clients stay connected."""
_OF_RELAYS_UNDER_RULES: Final = frozenset({(*_OF_RELAYS, "refuse"), ("listeners",)})
"""Keys of `_IN_PLACE` that need a restart of a relay to which the mesh applies rules."""


@dataclass(frozen=True, slots=True)
class ProcessChanged:
    """A change of the whole process, for all virtual clusters."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"changed: {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class ClusterAdded:
    name: str

    def __str__(self) -> str:
        return f"cluster {self.name}: added"


@dataclass(frozen=True, slots=True)
class ClusterRemoved:
    name: str

    def __str__(self) -> str:
        return f"cluster {self.name}: removed"


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """A change of a cluster that needs new connections."""

    name: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"cluster {self.name}: connected to anew ({', '.join(self.keys)})"


@dataclass(frozen=True, slots=True)
class ClusterLoginChanged:
    """Another user name or password of SASL. Connections stay; those that are made from now on use it."""

    name: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"cluster {self.name}: changed ({', '.join(self.keys)})"


@dataclass(frozen=True, slots=True)
class VirtualClusterAdded:
    name: str

    def __str__(self) -> str:
        return f"virtual cluster {self.name}: added"


@dataclass(frozen=True, slots=True)
class VirtualClusterRemoved:
    name: str

    def __str__(self) -> str:
        return f"virtual cluster {self.name}: removed"


@dataclass(frozen=True, slots=True)
class VirtualClusterChanged:
    """A change of a virtual cluster whose clients stay connected."""

    name: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"virtual cluster {self.name}: changed ({', '.join(self.keys)})"


@dataclass(frozen=True, slots=True)
class VirtualClusterRenewed:
    """A change for which a virtual cluster starts again: its clients reconnect."""

    name: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"virtual cluster {self.name}: restarted, its clients reconnect ({', '.join(self.keys)})"


Change: TypeAlias = (
    ProcessChanged
    | ClusterAdded
    | ClusterRemoved
    | ClusterChanged
    | ClusterLoginChanged
    | VirtualClusterAdded
    | VirtualClusterRemoved
    | VirtualClusterChanged
    | VirtualClusterRenewed
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between two configurations. refused: changes that are impossible while the process runs; if there
    are any, nothing changes."""

    changes: tuple[Change, ...]
    refused: tuple[Mistake, ...]


def _has_only_another_login(before: Cluster, after: Cluster) -> bool:
    """Returns whether a cluster differs only in the user name or the password of SASL."""
    return before != after and _without_login(before) == _without_login(after)


def _without_login(cluster: Cluster) -> Cluster:
    others = {name: value for name, value in cluster.properties.items() if name not in _LOGIN}
    return cluster.model_copy(update={"properties": others})


def compare(before: Config, after: Config) -> Comparison:
    changes: list[Change] = []
    if keys := tuple(map(format_path, _of_process(before, after))):
        changes.append(ProcessChanged(keys))
    changes += _of_clusters(before.clusters, after.clusters)
    changes += _of_virtual_clusters(before, after)
    return Comparison(tuple(changes), tuple(_refused(before, after)))


def fingerprint(config: Config) -> str:
    """Returns a text that is equal in two processes if they run the same configuration. Secrets are left out, so that
    it does not help to guess them."""
    text = json.dumps(config.redacted(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _of_process(before: Config, after: Config) -> Iterator[KeyPath]:
    for key in _differing(before, after):
        match key:
            case "clusters" | "routers" | "interceptors" | "interceptor_workers" | "virtual_clusters":
                pass
            case "process_id" | "journal" | "otlp" | "store" | "workers" | "peers":
                pass
            case "admin":
                if before.admin is not None and after.admin is not None:
                    yield from (("admin", each) for each in _differing(before.admin, after.admin) if each != "listen")
            case _:
                yield (key,)


def _of_clusters(before: Sequence[Cluster], after: Sequence[Cluster]) -> Iterator[Change]:
    old, new = _by_name(before), _by_name(after)
    yield from (ClusterRemoved(name) for name in old if name not in new)
    yield from (ClusterAdded(name) for name in new if name not in old)
    for name in new:
        if name in old and (keys := tuple(_differing(old[name], new[name]))):
            yield (ClusterLoginChanged if _has_only_another_login(old[name], new[name]) else ClusterChanged)(name, keys)


def _of_virtual_clusters(before: Config, after: Config) -> Iterator[Change]:
    old, new = _by_name(before.virtual_clusters), _by_name(after.virtual_clusters)
    yield from (VirtualClusterRemoved(name) for name in old if name not in new)
    yield from (VirtualClusterAdded(name) for name in new if name not in old)
    for name in new:
        if name not in old:
            continue
        paths = [
            *_of_virtual_cluster(old[name], new[name]),
            *_of_routers(before, after, new[name]),
            *_of_interceptors(before, after, new[name]),
        ]
        keys = tuple(map(format_path, paths))
        in_place = _in_place(new[name])
        if _goes_by_names(before, old[name]) and _goes_by_names(after, new[name]):
            in_place |= {("routers", each.name) for each in after.routers}
        if any(path not in in_place for path in paths) or _is_secured_otherwise(old[name], new[name]):
            yield VirtualClusterRenewed(name, keys)
        elif keys:
            yield VirtualClusterChanged(name, keys)


def _of_virtual_cluster(before: VirtualClusterConfig, after: VirtualClusterConfig) -> Iterator[KeyPath]:
    yield from _of_nodes(before.nodes, after.nodes)
    for key in _differing(before, after):
        if key == "nodes":
            continue
        if key != "target":
            yield (key,)
            continue
        match before.target, after.target:
            case PoolTargetConfig(pool=was), PoolTargetConfig(pool=is_to_be):
                keys = [key for key in _differing(was, is_to_be) if key != "fairness"]
                yield from ((*_OF_POOLS, each) for each in keys)
                of_fairness = _differing(was.fairness, is_to_be.fairness)
                yield from ((*_OF_POOLS, "fairness", each) for each in of_fairness)
            case RelayTargetConfig(relay=was), RelayTargetConfig(relay=is_to_be):
                yield from ((*_OF_RELAYS, each) for each in _differing(was, is_to_be))
            case RouterTargetConfig(router=was), RouterTargetConfig(router=is_to_be):
                yield from ((*_OF_ROUTERS, each) for each in _differing(was, is_to_be))
            case _:
                yield (key,)


def _of_routers(before: Config, after: Config, virtual_cluster: VirtualClusterConfig) -> Iterator[KeyPath]:
    """Yields the changed routers behind a virtual cluster. If its target names another router now, the virtual cluster
    itself has changed."""
    if not isinstance(virtual_cluster.target, RouterTargetConfig):
        return
    old = _by_name(before.routers)
    behind = routers_behind(after.routers, virtual_cluster.target.router.name)
    yield from (("routers", each.name) for each in behind if old.get(each.name) != each)


def _goes_by_names(config: Config, virtual_cluster: VirtualClusterConfig) -> bool:
    """Returns whether all routers behind a virtual cluster decide by names."""
    if not isinstance(virtual_cluster.target, RouterTargetConfig):
        return False
    behind = graph_of(config, virtual_cluster.target.router.name).routers
    return all(router.decides is Decides.NAMES for router in behind.values())


def _of_interceptors(before: Config, after: Config, virtual_cluster: VirtualClusterConfig) -> Iterator[KeyPath]:
    """Yields the changed interceptors of a virtual cluster, routes whose list of interceptors has changed, and changes
    of the worker processes."""
    names = sorted(interceptors_behind(virtual_cluster, after.routers))
    if isinstance(virtual_cluster.target, RouterTargetConfig):
        root = virtual_cluster.target.router.name
        was, is_to_be = (_of_routes(each.routers, root) for each in (before, after))
        routes = [each for each in was | is_to_be if was.get(each) != is_to_be.get(each)]
        yield from (("routers", *each, "interceptors") for each in routes)
    if not names:
        return
    old, new = _by_name(before.interceptors), _by_name(after.interceptors)
    yield from (("interceptors", name) for name in names if old.get(name) != new[name])
    if before.interceptor_workers != after.interceptor_workers:
        yield ("interceptor_workers",)


def _of_routes(
    routers: Sequence[RouterConfig], root: RouterName
) -> dict[tuple[RouterName, RouteName], tuple[InterceptorName, ...]]:
    """Returns the interceptors of each route that has some."""
    return {
        (router.name, route.name): route.interceptors
        for router in routers_behind(routers, root)
        for route in router.routes
        if route.interceptors
    }


def _of_nodes(before: NodesConfig | OneNode | None, after: NodesConfig | OneNode | None) -> Iterator[KeyPath]:
    if not isinstance(before, NodesConfig) or not isinstance(after, NodesConfig):
        if before is not after:
            yield ("nodes",)
    else:
        yield from (("nodes", each) for each in _differing(before, after))
        # Ports are assigned in the order of the clusters.
        if before.ids == after.ids and list(before.ids) != list(after.ids):
            yield ("nodes", "ids")


def _in_place(virtual_cluster: VirtualClusterConfig) -> frozenset[KeyPath]:
    is_relay = isinstance(virtual_cluster.target, RelayTargetConfig)
    return _IN_PLACE - _OF_RELAYS_UNDER_RULES if is_relay and virtual_cluster.authorization else _IN_PLACE


def _is_secured_otherwise(before: VirtualClusterConfig, after: VirtualClusterConfig) -> bool:
    """Returns whether TLS, authentication or, for relays and routers, rules are switched on or off, so that connected
    clients could not have connected in the same way. Relays and routers without rules do not check requests at all."""
    keys = ("tls", "sasl") if isinstance(after.target, PoolTargetConfig) else ("tls", "sasl", "authorization")
    return any((getattr(before, key) is None) is not (getattr(after, key) is None) for key in keys)


def _refused(before: Config, after: Config) -> Iterator[Mistake]:
    old, new = before.redacted(), after.redacted()
    if before.workers != after.workers:
        yield _mistake(("workers",), old["workers"], new["workers"])
    if before.peers != after.peers:
        yield _mistake(("peers",), _presence(before.peers), _presence(after.peers))
    if before.process_id != after.process_id:
        yield _mistake(("process_id",), old["process_id"], new["process_id"])
    if before.otlp != after.otlp:
        yield _mistake(("otlp",), _presence(before.otlp), _presence(after.otlp))
    if before.journal != after.journal:
        yield _mistake(("journal",), _presence(before.journal), _presence(after.journal))
    if before.store != after.store:
        yield _mistake(("store",), _presence(before.store), _presence(after.store))
    match before.admin, after.admin:
        case Admin() as was, Admin() as is_to_be:
            if was.listen != is_to_be.listen:
                yield _mistake(("admin", "listen"), str(was.listen), str(is_to_be.listen))
            if (was.tls is None) is not (is_to_be.tls is None):
                yield _mistake(("admin", "tls"), _presence(was.tls), _presence(is_to_be.tls))
        case was, is_to_be if (was is None) is not (is_to_be is None):
            yield _mistake(("admin",), _presence(was), _presence(is_to_be))
    yield from moved_partitions(before.routers, after.routers)


def _presence(section: Model | None) -> Mapping[str, object] | None:
    return None if section is None else {}


def _mistake(path: KeyPath, before: object, after: object) -> Mistake:
    return Mistake(path, f"{show(after)} in place of {show(before)}", _KEPT)


def _by_name(named: Sequence[Named]) -> dict[str, Named]:
    return {each.name: each for each in named}


def _differing(before: Model, after: Model) -> Iterator[str]:
    """Yields the keys that differ, as in the file."""
    for name in type(before).model_fields:
        if getattr(before, name) != getattr(after, name):
            yield name
