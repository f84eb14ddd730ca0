"""Unions of two clusters, eu and us, as configurations make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesh.records.spans import ClusterName
from mesh.routing.graph import Route, Router, ToCluster, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.routers.topics import Topics, TopicsConfig
from mesh.routing.union import Union

NAME = RouterName("regions")
SAME: Mapping[str, Any] = {
    "topics": [{"prefix": "us.", "route": "us"}, {"prefix": "", "route": "eu"}],
    "groups": [{"pattern": "us-*", "route": "us"}],
    "transactional_ids": [{"pattern": "us-*", "route": "us"}],
    "default": "eu",
}
"""Topics that begin with `us.` are us's, groups and transactions that begin with `us-`; all others are eu's."""
RENAMED: Mapping[str, Any] = {
    **SAME,
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
}
"""The same; us calls its topics otherwise."""


def union_of(config: Mapping[str, Any]) -> Union:
    """eu is leaf 0, us leaf 1."""
    routes = (
        Route(RouteName("eu"), 0, ToCluster(ClusterName("eu"))),
        Route(RouteName("us"), 1, ToCluster(ClusterName("us"))),
    )
    graph = compile_graph([Router(NAME, routes)], NAME)
    return Union(graph, {NAME: Topics(TopicsConfig.model_validate(config))})
