"""Graphs in short: `router("regions", eu="eu", us=ToRouter("b"))` has routes with the ids 0 and 1."""

from __future__ import annotations

from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, GraphRouter, Route, Target, ToCluster, ToRouter
from mesh.routing.names import RouteName, RouterName


def router(
    name: str, decides: Decides = Decides.NAMES, shares_clusters: bool = False, /, **targets: str | Target
) -> GraphRouter:
    """targets: by the names of the routes; a text stands for a cluster."""
    routes = [
        Route(RouteName(route), index, ToCluster(ClusterName(target)) if isinstance(target, str) else target)
        for index, (route, target) in enumerate(targets.items())
    ]
    return GraphRouter(RouterName(name), tuple(routes), decides, shares_clusters)


def to(name: str) -> ToRouter:
    return ToRouter(RouterName(name))


def path(*routes: str) -> tuple[RouteName, ...]:
    return tuple(map(RouteName, routes))
