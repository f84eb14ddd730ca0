"""Names and numbers of routers and routes."""

from __future__ import annotations

from typing import NewType, TypeAlias

RouterName = NewType("RouterName", str)
RouteName = NewType("RouteName", str)
LeafNumber = NewType("LeafNumber", int)
"""Of a path of routes that ends at a cluster, made of the ids of these routes: see `node_ids`."""
Path: TypeAlias = tuple[RouteName, ...]
"""The routes that lead to a leaf or to a router, from the root."""
