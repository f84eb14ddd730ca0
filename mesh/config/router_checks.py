"""Checks of routers and their routes together, and with the virtual clusters in front of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from pydantic import ValidationError

from mesh.config.concatenated import check_parts
from mesh.config.finding import Finding, Missing
from mesh.config.graphs import configured, interceptors_behind, ports_of_each_leaf, ports_of_nodes, router_of
from mesh.config.group_patterns import may_overlap
from mesh.config.mistakes import KeyPath, format_path, is_within
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.pool import PoolConfig
from mesh.config.relay import NodesConfig
from mesh.config.router_types import UnknownRouterType, factory_of
from mesh.config.routers import RouterConfig, RouterTargetConfig, ToClusterConfig, ToPoolConfig
from mesh.config.validation import allowed_by, keys_in, value_at
from mesh.routing.graph import Decides, Graph, GraphRouter, compile_graph
from mesh.routing.graph_checks import mistakes_in
from mesh.routing.names import Path, RouteName, RouterName
from mesh.routing.node_ids import NodeIdTooLarge

PoolRoute: TypeAlias = tuple[RouterName, RouteName]
"""A route to a pool, with its router."""


def check_routers(config: Config, cluster_names: frozenset[str] | None) -> Iterator[Finding]:
    """Finds the mistakes in routers. cluster_names: the names of all upstream clusters in the file, None if not all are
    known."""
    routers: list[GraphRouter] = []
    for index, router in enumerate(config.routers):
        findings = list(_config(router, ("routers", index)))
        yield from findings
        if not findings:
            routers.append(router_of(router, *configured(router)))
            yield from check_parts(router, ("routers", index))
    yield from _properties(config)
    if len(routers) < len(config.routers):
        return
    roots = [(path, target.router.name) for path, _, target in _targets(config)]
    mistakes = list(mistakes_in(routers, roots, cluster_names))
    yield from (Finding(each.path, each.value, each.allowed, each.others) for each in mistakes)
    pools: dict[PoolRoute, KeyPath] = {}
    for path, virtual_cluster, target in _targets(config):
        root = target.router.name
        is_whole = not any(is_within(each.path, ("routers",)) for each in mistakes)
        graph = compile_graph(routers, root) if is_whole and any(each.name == root for each in routers) else None
        yield from _virtual_cluster(virtual_cluster, graph, path[:2])
        if graph is not None:
            if virtual_cluster.is_one_node:
                yield from _one_node(virtual_cluster, graph, config.routers, path[:2])
            yield from _pools_twice(graph, path, pools)
            yield from _groups_twice(config, graph)


def _targets(config: Config) -> Iterator[tuple[KeyPath, VirtualClusterConfig, RouterTargetConfig]]:
    for index, each in enumerate(config.virtual_clusters):
        if isinstance(each.target, RouterTargetConfig):
            yield ("virtual_clusters", index, "target", "router"), each, each.target


def _config(router: RouterConfig, path: KeyPath) -> Iterator[Finding]:
    """Finds the mistakes in the config of a router, by its type."""
    try:
        factory = factory_of(router.type)
    except UnknownRouterType as problem:
        yield Finding((*path, "type"), router.type, str(problem))
        return
    at = (*path, "config")
    try:
        config = factory.config.model_validate(router.config)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            keys = keys_in(router.config, details)
            value = Missing() if details["type"] == "missing" else value_at(router.config, keys)
            yield Finding((*at, *keys), value, allowed_by(factory.config, details), ((*path, "type"),))
        return
    routes = [route.name for route in router.routes]
    if not routes:
        return  # the missing routes are one mistake; each rule that names a route would repeat it
    for mistake in factory.mistakes(config, routes):
        yield Finding((*at, *mistake.path), mistake.value, mistake.allowed, ((*path, "type"), (*path, "routes")))


def _properties(config: Config) -> Iterator[Finding]:
    """Finds properties that a router cannot honour: connections to the clusters of its routes are the mesh's own, not
    librdkafka's."""
    for index, cluster in enumerate(config.clusters):
        if (reason := cluster.reason_against_own_connections()) is None:
            continue
        for number, router in enumerate(config.routers):
            for place, route in enumerate(router.routes):
                if isinstance(route.target, ToClusterConfig) and route.target.cluster == cluster.name:
                    other: KeyPath = ("routers", number, "routes", place, "target", "cluster")
                    allowed = f"properties that a router can honour: {reason}"
                    yield Finding(("clusters", index, "properties"), {}, allowed, (other,))
                    return


def _virtual_cluster(virtual_cluster: VirtualClusterConfig, graph: Graph | None, path: KeyPath) -> Iterator[Finding]:
    """Checks a virtual cluster. graph: the graph of its routers, None if unknown."""
    if virtual_cluster.nodes is None:
        allowed = "required for a router: {ports: FIRST-LAST}, one for each node of each cluster, or {hosts: NAME}"
        yield Finding((*path, "nodes"), None, allowed)
    if graph is None:
        return
    if "coordinator" in virtual_cluster.model_fields_set and not graph.pools:
        allowed = "left out: only a pool has a coordinator of its own, and none is behind this router"
        yield Finding((*path, "coordinator"), str(virtual_cluster.coordinator), allowed)
    if virtual_cluster.authorization is not None and _has_requests(graph):
        allowed = "left out: a router that answers each request decides itself what a principal may do"
        yield Finding((*path, "authorization"), {}, allowed, (("routers",),))
    if isinstance(virtual_cluster.nodes, NodesConfig) and virtual_cluster.nodes.ports is not None:
        yield from _ports(virtual_cluster.nodes, graph, (*path, "nodes"))


def _one_node(
    virtual_cluster: VirtualClusterConfig, graph: Graph, routers: Sequence[RouterConfig], path: KeyPath
) -> Iterator[Finding]:
    """Finds settings that are impossible with the nodes of all clusters as one."""
    other: tuple[KeyPath, ...] = ((*path, "nodes"),)
    if any(each.decides is not Decides.NAMES for each in graph.routers.values()):
        allowed = "{ports: FIRST-LAST} or {hosts: NAME}: with nodes: one, all routers have to decide by names"
        yield Finding((*path, "nodes"), "one", allowed, ((*path, "target"),))
    if virtual_cluster.authorization is not None:
        allowed = "left out with nodes: one of a router: rules need nodes with addresses of their own there"
        yield Finding((*path, "authorization"), {}, allowed, other)
    if interceptors := interceptors_behind(virtual_cluster, routers):
        allowed = "left out, also of routes: behind a router, interceptors need {ports: FIRST-LAST} or {hosts: NAME}"
        yield Finding((*path, "interceptors"), sorted(interceptors), allowed, other)


def _has_requests(graph: Graph) -> bool:
    return any(each.decides is Decides.REQUESTS for each in graph.routers.values())


def _pools_twice(graph: Graph, path: KeyPath, seen: dict[PoolRoute, KeyPath]) -> Iterator[Finding]:
    """Finds pools that several paths of routes lead to: they would be several pools with one upstream group. seen: the
    pools of other virtual clusters."""
    for pool in graph.pools:
        router = graph.at(pool.path[:-1])
        assert isinstance(router, GraphRouter), "what has a route is a router"
        route = router.name, pool.path[-1]
        if route in seen:
            where = format_path(seen[route])
            allowed = f"a router whose pools nothing else leads to; {where} leads to {'/'.join(route)} too"
            yield Finding(path, graph.root, allowed, (seen[route], ("routers",)))
        seen.setdefault(route, path)


def _groups_twice(config: Config, graph: Graph) -> Iterator[Finding]:
    """Finds groups that two pools at one address admit: clients would see two groups of one name."""
    pools = [_pool_at(config, graph, each.path) for each in graph.pools]
    for (left_path, left), (right_path, right) in itertools.combinations(pools, 2):
        pairs = itertools.product(_groups(left), _groups(right))
        overlap = next((pair for pair in pairs if may_overlap(*pair)), None)
        if overlap is not None:
            allowed = (
                f"groups that no other pool at the same address has, but group {overlap[1]!r} may be {overlap[0]!r} of"
                f" {format_path(left_path)} too: narrow groups, or change group_less"
            )
            others = [(*each, key) for each in (left_path, right_path) for key in ("groups", "group_less")]
            yield Finding((*right_path, "groups"), [*right.groups], allowed, tuple(others))


def _groups(pool: PoolConfig) -> list[str]:
    return [*pool.groups, *([] if pool.group_less is None else [pool.group_less])]


def _pool_at(config: Config, graph: Graph, path: Path) -> tuple[KeyPath, PoolConfig]:
    """Returns the pool at the end of these routes, and its place."""
    router = graph.at(path[:-1])
    assert isinstance(router, GraphRouter), "what has a route is a router"
    index = next(index for index, each in enumerate(config.routers) if each.name == router.name)
    for number, route in enumerate(config.routers[index].routes):
        if route.name == path[-1] and isinstance(route.target, ToPoolConfig):
            return ("routers", index, "routes", number, "target", "pool"), route.target.pool
    raise AssertionError("the graph was made of this configuration")


def _ports(nodes: NodesConfig, graph: Graph, path: KeyPath) -> Iterator[Finding]:
    leaves = list(map(str, graph.leaves))
    if not isinstance(nodes.ids, dict):
        if leaves and not ports_of_each_leaf(nodes, leaves):
            allowed = f"at least one port for each of {len(leaves)} clusters: {', '.join(leaves)}"
            yield Finding((*path, "ports"), str(nodes.ports), allowed, (("routers",),))
        return
    yield from _paths(nodes.ids, leaves, (*path, "ids"))
    if set(nodes.ids) == set(leaves):
        try:
            ports_of_nodes(nodes, graph)
        except NodeIdTooLarge as problem:
            yield Finding((*path, "ids"), {}, str(problem), (("routers",),))


def _paths(ids: Collection[str], leaves: Sequence[str], path: KeyPath) -> Iterator[Finding]:
    for key in ids:
        if key not in leaves:
            allowed = f"the routes to one of the clusters: {', '.join(leaves)}"
            yield Finding((*path, key), key, allowed, (("routers",),))
    if missing := [leaf for leaf in leaves if leaf not in ids]:
        yield Finding(path, {}, f"the ids of every cluster; {', '.join(missing)} is missing", (("routers",),))
