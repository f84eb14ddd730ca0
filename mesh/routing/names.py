"""Names of routers and routes, and numbers of leaves."""

from __future__ import annotations

from typing import NewType, TypeAlias

RouterName = NewType("RouterName", str)
RouteName = NewType("RouteName", str)
LeafNumber = NewType("LeafNumber", int)
"""The number of a leaf, composed of the ids of its routes: see `node_ids`."""
Path: TypeAlias = tuple[RouteName, ...]
"""The routes from the root to a leaf or a router."""
