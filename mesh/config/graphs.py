"""The routers of a configuration as a graph, and the port of each node behind it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import assert_never

from pydantic import BaseModel

from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.relay import NodesConfig
from mesh.config.router_types import AnyFactory, factory_of
from mesh.config.routers import (
    RouteConfig,
    RouterConfig,
    RouterTargetConfig,
    ToClusterConfig,
    ToPoolConfig,
    ToRouterConfig,
)
from mesh.interceptors.chain import InterceptorName
from mesh.routing.graph import Graph, GraphRouter, Route, Target, ToCluster, ToPool, ToRouter, compile_graph
from mesh.routing.names import LeafNumber, RouterName
from mesh.routing.node_ids import NodeIds


def configured(router: RouterConfig) -> tuple[AnyFactory, BaseModel]:
    """Returns the factory of a router, and its parsed config. Raises UnknownRouterType and pydantic's ValidationError;
    for a loaded configuration it raises neither."""
    factory = factory_of(router.type)
    config: BaseModel = factory.config.model_validate(router.config)
    return factory, config


def router_of(router: RouterConfig, factory: AnyFactory, config: BaseModel) -> GraphRouter:
    routes = tuple(Route(each.name, each.id, _target(each)) for each in router.routes)
    return GraphRouter(router.name, routes, factory.decides, factory.shares_clusters(config))


def _target(route: RouteConfig) -> Target:
    match route.target:
        case ToClusterConfig(cluster=cluster):
            return ToCluster(cluster)
        case ToRouterConfig(router=router):
            return ToRouter(router)
        case ToPoolConfig():
            return ToPool()
        case _:
            assert_never(route.target)


def graph_of(config: Config, root: RouterName) -> Graph:
    """Returns the graph behind a router of a configuration without mistakes."""
    return compile_graph([router_of(each, *configured(each)) for each in config.routers], root)


def ports_of_nodes(nodes: NodesConfig, graph: Graph) -> dict[int, int]:
    """Returns the port of each declared node, by the id that clients see. Raises NodeIdTooLarge.

    Without ids all leaves have equally many ports, in the order of their numbers, for their nodes from 0 on.
    """
    ids = NodeIds(leaf.number for leaf in graph.leaves)
    of_leaves: list[tuple[LeafNumber, Iterable[int]]]
    if isinstance(nodes.ids, dict):
        numbers = {str(leaf): leaf.number for leaf in graph.leaves}
        of_leaves = [(numbers[path], itertools.chain.from_iterable(ranges)) for path, ranges in nodes.ids.items()]
    else:
        each = ports_of_each_leaf(nodes, graph.leaves)
        of_leaves = [(leaf.number, range(each)) for leaf in graph.leaves]
    shown = (ids.virtual(leaf, node) for leaf, nodes_there in of_leaves for node in nodes_there)
    return dict(zip(shown, nodes.ports or (), strict=False))


def ports_of_each_leaf(nodes: NodesConfig, leaves: Sequence[object]) -> int:
    """Returns the number of ports of each leaf if no ids are declared."""
    return len(nodes.ports or ()) // max(len(leaves), 1)


def routers_behind(routers: Sequence[RouterConfig], root: RouterName) -> list[RouterConfig]:
    """Returns the root and all routers behind it. Names of missing routers lead nowhere."""
    by_name = {each.name: each for each in routers}
    found: dict[RouterName, RouterConfig] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop(0)
        if name not in found and name in by_name:
            found[name] = by_name[name]
            waiting += [each.target.router for each in by_name[name].routes if isinstance(each.target, ToRouterConfig)]
    return list(found.values())


def interceptors_behind(virtual_cluster: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> set[InterceptorName]:
    """Returns the names of the interceptors of a virtual cluster, and of the routes behind it."""
    names = set(virtual_cluster.interceptors)
    if isinstance(virtual_cluster.target, RouterTargetConfig):
        behind = routers_behind(routers, virtual_cluster.target.router.name)
        names |= {name for router in behind for route in router.routes for name in route.interceptors}
    return names
