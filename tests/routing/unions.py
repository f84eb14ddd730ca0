"""Unions of two clusters, eu and us, made from configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesh.records.spans import ClusterName
from mesh.routing.graph import GraphRouter, Route, ToCluster, compile_graph
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
"""Topics that begin with `us.` belong to us, and so do groups and transactions that begin with `us-`; all others belong
to eu."""
RENAMED: Mapping[str, Any] = {
    **SAME,
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
}
"""The same; topics have other names at us."""


def union_of(config: Mapping[str, Any]) -> Union:
    """A union of eu, leaf 0, and us, leaf 1."""
    routes = (
        Route(RouteName("eu"), 0, ToCluster(ClusterName("eu"))),
        Route(RouteName("us"), 1, ToCluster(ClusterName("us"))),
    )
    graph = compile_graph([GraphRouter(NAME, routes)], NAME)
    return Union(graph, {NAME: Topics(TopicsConfig.model_validate(config))})
