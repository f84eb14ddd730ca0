"""The graph of routers and routes, and the leaves that its root leads to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from mesh.records.spans import ClusterName
from mesh.routing.names import LeafNumber, Path, RouteName, RouterName
from mesh.routing.node_ids import leaf_number


class Decides(Enum):
    """The scope of one decision of a router."""

    NAMES = "the name of each topic, group and transactional id"
    REQUESTS = "each request"
    CONNECTIONS = "each connection, once"


@dataclass(frozen=True, slots=True)
class ToCluster:
    cluster: ClusterName


@dataclass(frozen=True, slots=True)
class ToRouter:
    router: RouterName


@dataclass(frozen=True, slots=True)
class ToPool:
    """A pool as the target of a route. The configuration says which topics the pool shares."""


Target: TypeAlias = ToCluster | ToRouter | ToPool


@dataclass(frozen=True, slots=True)
class Route:
    """A route of a router in the graph. id: its digit in the numbers of the leaves behind it."""

    name: RouteName
    id: int
    target: Target


@dataclass(frozen=True, slots=True)
class GraphRouter:
    """A router in the graph. shares_clusters: whether two of its routes may lead to one cluster."""

    name: RouterName
    routes: tuple[Route, ...]
    decides: Decides = Decides.NAMES
    shares_clusters: bool = False

    def route(self, name: RouteName) -> Route:
        """Returns the route with this name. Raises KeyError if the router has no such route."""
        for each in self.routes:
            if each.name == name:
                return each
        raise KeyError(f"router {self.name} has no route {name}, but {', '.join(each.name for each in self.routes)}")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A path of routes that ends at a cluster."""

    number: LeafNumber
    path: Path
    cluster: ClusterName

    def __str__(self) -> str:
        return "/".join(self.path)


@dataclass(frozen=True, slots=True)
class PoolEnd:
    """A path of routes that ends at a pool."""

    path: Path


@dataclass(frozen=True, slots=True)
class Graph:
    """The leaves, pools and routers that a root leads to. leaves: in the order of their numbers. routers: all that can
    be reached, including the root."""

    root: RouterName
    leaves: tuple[Leaf, ...]
    pools: tuple[PoolEnd, ...]
    routers: Mapping[RouterName, GraphRouter]
    _by_number: Mapping[LeafNumber, Leaf] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_number", {each.number: each for each in self.leaves})

    @property
    def clusters(self) -> frozenset[ClusterName]:
        """The clusters of all leaves."""
        return frozenset(leaf.cluster for leaf in self.leaves)

    def leaf(self, number: LeafNumber) -> Leaf | None:
        """Returns the leaf with this number. None: a client made the number up, or the leaf was removed."""
        return self._by_number.get(number)

    def at(self, path: Path) -> Leaf | PoolEnd | GraphRouter:
        """Returns the cluster, pool or router to which a path leads from the root; for an empty path the root. Raises
        KeyError if the path leads nowhere."""
        router = self.routers[self.root]
        ids: list[int] = []
        for place, name in enumerate(path, 1):
            route = router.route(name)
            ids.append(route.id)
            match route.target:
                case ToRouter(router=behind):
                    router = self.routers[behind]
                case ToCluster(cluster=cluster) if place == len(path):
                    return Leaf(leaf_number(ids), path, cluster)
                case ToPool() if place == len(path):
                    return PoolEnd(path)
                case _:
                    raise KeyError(f"nothing is behind route {name} of router {router.name}")
        return router

    def behind(self, path: Path) -> tuple[RouterName, ...]:
        """Returns the router at the end of a path, and all routers behind it. Raises KeyError if the path leads
        nowhere."""
        found = self.at(path)
        if not isinstance(found, GraphRouter):
            return ()
        further = (self.behind((*path, route.name)) for route in found.routes)
        return tuple(dict.fromkeys((found.name, *itertools.chain.from_iterable(further))))


def compile_graph(routers: Sequence[GraphRouter], root: RouterName) -> Graph:
    """Makes the graph of a root, without routers that it does not lead to. routers: without the mistakes that
    `graph_checks` finds."""
    by_name = {each.name: each for each in routers}
    reached: dict[RouterName, GraphRouter] = {}

    def ends(name: RouterName, path: Path, ids: tuple[int, ...]) -> Iterator[Leaf | PoolEnd]:
        reached[name] = by_name[name]
        for route in by_name[name].routes:
            here, numbers = (*path, route.name), (*ids, route.id)
            match route.target:
                case ToCluster(cluster=cluster):
                    yield Leaf(leaf_number(numbers), here, cluster)
                case ToRouter(router=behind):
                    yield from ends(behind, here, numbers)
                case ToPool():
                    yield PoolEnd(here)

    found = list(ends(root, (), ()))
    leaves = sorted((each for each in found if isinstance(each, Leaf)), key=lambda leaf: leaf.number)
    return Graph(root, tuple(leaves), tuple(each for each in found if isinstance(each, PoolEnd)), reached)
