"""Checks a configuration's routers, their routes and their targets together."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from mesh.routing.graph import Decides, GraphRouter, ToCluster, ToPool, ToRouter
from mesh.routing.names import RouterName
from mesh.routing.node_ids import DEPTH, HIGHEST_ROUTE_ID

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes in a configuration."""
Edge: TypeAlias = tuple[int, int]
"""A route, as two indexes: that of its router, and that of the route in the router."""


@dataclass(frozen=True, slots=True)
class GraphMistake:
    """A mistake in a configuration, and its place. others: other places that contribute to it."""

    path: KeyPath
    value: object
    allowed: str
    others: tuple[KeyPath, ...] = ()


def mistakes_in(
    routers: Sequence[GraphRouter], roots: Sequence[tuple[KeyPath, RouterName]], clusters: Collection[str] | None
) -> Iterator[GraphMistake]:
    """Yields the mistakes in a graph of routers. routers: as in the list `routers` of a configuration. roots: the
    routers that virtual clusters name, with the places of these references. clusters: the defined clusters; None if not
    all are known."""
    yield from _repeated(routers)
    yield from _unknown_clusters(routers, clusters)
    dangling = list(_dangling(routers, roots))
    yield from dangling or _unreachable(routers, roots)
    graph = _Edges(routers)
    cycles = list(_cycles(routers, graph))
    yield from cycles
    if not cycles:
        yield from _too_deep(routers, graph, [name for _, name in roots])
        yield from _clusters_twice(routers, graph)
        yield from _behind(routers, graph)


class _Edges:
    """The edges of the graph: the router that each route leads to."""

    def __init__(self, routers: Sequence[GraphRouter]) -> None:
        self.index: dict[RouterName, int] = {}
        for index, router in enumerate(routers):
            self.index.setdefault(router.name, index)
        self.of: Mapping[int, Sequence[tuple[Edge, int]]] = {
            index: [
                ((index, number), self.index[route.target.router])
                for number, route in enumerate(router.routes)
                if isinstance(route.target, ToRouter) and route.target.router in self.index
            ]
            for index, router in enumerate(routers)
        }


def _repeated(routers: Sequence[GraphRouter]) -> Iterator[GraphMistake]:
    yield from _same([(("routers", index, "name"), router.name) for index, router in enumerate(routers)], "a name")
    for index, router in enumerate(routers):
        at: KeyPath = ("routers", index, "routes")
        if not router.routes:
            yield GraphMistake(at, (), "at least one")
        yield from _same([((*at, i, "name"), route.name) for i, route in enumerate(router.routes)], "a name")
        yield from _same([((*at, i, "id"), route.id) for i, route in enumerate(router.routes)], "an id")
        for number, route in enumerate(router.routes):
            if not 0 <= route.id <= HIGHEST_ROUTE_ID:
                yield GraphMistake((*at, number, "id"), route.id, f"0 to {HIGHEST_ROUTE_ID}")


def _same(values: Iterable[tuple[KeyPath, object]], what: str) -> Iterator[GraphMistake]:
    seen: dict[object, KeyPath] = {}
    for path, value in values:
        if (first := seen.setdefault(value, path)) != path:
            yield GraphMistake(path, value, f"{what} of its own; {_text(first)} is the same", (first,))


def _unknown_clusters(routers: Sequence[GraphRouter], clusters: Collection[str] | None) -> Iterator[GraphMistake]:
    for index, router in enumerate(routers):
        for number, route in enumerate(router.routes):
            if clusters is not None and isinstance(route.target, ToCluster) and route.target.cluster not in clusters:
                allowed = f"one of the clusters defined: {', '.join(sorted(clusters))}"
                yield GraphMistake(_target((index, number), "cluster"), route.target.cluster, allowed)


def _dangling(routers: Sequence[GraphRouter], roots: Sequence[tuple[KeyPath, RouterName]]) -> Iterator[GraphMistake]:
    defined = {each.name for each in routers}
    allowed = f"one of the routers defined: {', '.join(sorted(defined))}" if defined else "a router; none are defined"
    names: tuple[KeyPath, ...] = tuple(("routers", index, "name") for index in range(len(routers)))
    led_to = list(roots)
    for index, router in enumerate(routers):
        for number, route in enumerate(router.routes):
            if isinstance(route.target, ToRouter):
                led_to.append((_target((index, number), "router"), route.target.router))
    for path, name in led_to:
        if name not in defined:
            yield GraphMistake(path, name, allowed, names)


def _unreachable(routers: Sequence[GraphRouter], roots: Sequence[tuple[KeyPath, RouterName]]) -> Iterator[GraphMistake]:
    by_name = {each.name: each for each in reversed(routers)}
    waiting, reached = [name for _, name in roots], set[RouterName]()
    while waiting:
        if (name := waiting.pop()) in reached or name not in by_name:
            continue
        reached.add(name)
        waiting += [each.target.router for each in by_name[name].routes if isinstance(each.target, ToRouter)]
    for index, router in enumerate(routers):
        if router.name not in reached:
            allowed = "a router that a virtual cluster leads to, by its target or by the routes of others"
            yield GraphMistake(("routers", index, "name"), router.name, allowed, (("virtual_clusters",), ("routers",)))


def _cycles(routers: Sequence[GraphRouter], graph: _Edges) -> Iterator[GraphMistake]:
    """Yields one mistake for each route that closes a cycle, placed at the route where the cycle begins."""
    done = set[int]()

    def walk(here: int, walked: list[tuple[Edge, int]]) -> Iterator[GraphMistake]:
        """Follows the routes of one router. walked: the routes from the start to this router, each with the router that
        has it."""
        for edge, behind in graph.of[here]:
            onward = [*walked, (edge, here)]
            starts = [start for _, start in onward]
            if behind in starts:
                first = starts.index(behind)
                names = [routers[start].name for start in starts[first:]]
                back = " -> ".join([*names, routers[behind].name])
                value = names[1] if len(names) > 1 else names[0]
                others = tuple(_target(other, "router") for other, _ in onward[first + 1 :])
                at = _target(onward[first][0], "router")
                yield GraphMistake(at, value, f"a router that does not lead back here: {back}", others)
            elif behind not in done:
                yield from walk(behind, onward)
        done.add(here)

    for index in range(len(routers)):
        if index not in done:
            yield from walk(index, [])


def _too_deep(routers: Sequence[GraphRouter], graph: _Edges, roots: Iterable[RouterName]) -> Iterator[GraphMistake]:
    level = {graph.index[name] for name in roots if name in graph.index}
    for _ in range(DEPTH - 1):
        level = {behind for here in level for _, behind in graph.of[here]}
    for edge, behind in (each for here in sorted(level) for each in graph.of[here]):
        allowed = f"a cluster: {DEPTH} routers behind each other are as many as there can be"
        yield GraphMistake(_target(edge, "router"), routers[behind].name, allowed)


def _clusters_twice(routers: Sequence[GraphRouter], graph: _Edges) -> Iterator[GraphMistake]:
    reached = _reached(routers, graph)
    for index, router in enumerate(routers):
        if router.shares_clusters:
            continue
        for (left, of_left), (right, of_right) in itertools.combinations(enumerate(reached[index]), 2):
            if shared := sorted(of_left & of_right):
                allowed = (
                    f"clusters of its own; route {router.routes[left].name} leads to {', '.join(shared)} too,"
                    f" which router {router.name} does not allow"
                )
                other: KeyPath = ("routers", index, "routes", left, "target")
                yield GraphMistake(_target((index, right)), router.routes[right].name, allowed, (other,))


def _reached(routers: Sequence[GraphRouter], graph: _Edges) -> Sequence[Sequence[frozenset[str]]]:
    """Returns the clusters that each route of each router leads to."""
    found: dict[int, list[frozenset[str]]] = {}

    def of(index: int) -> list[frozenset[str]]:
        if index not in found:
            found[index] = []
            for route in routers[index].routes:
                match route.target:
                    case ToCluster(cluster=cluster):
                        found[index].append(frozenset({cluster}))
                    case ToRouter(router=name) if name in graph.index:
                        found[index].append(frozenset[str]().union(*of(graph.index[name])))
                    case _:
                        found[index].append(frozenset())
        return found[index]

    return [of(index) for index in range(len(routers))]


def _behind(routers: Sequence[GraphRouter], graph: _Edges) -> Iterator[GraphMistake]:
    """Yields a mistake for each route to a router that decides more often than the router that has the route."""
    for index, router in enumerate(routers):
        if router.decides is Decides.CONNECTIONS:
            continue
        for number, route in enumerate(router.routes):
            if isinstance(route.target, ToPool):
                allowed = f"a cluster or a router: router {router.name} {_ONLY_CONNECTIONS} can lead to a pool"
                yield GraphMistake(_target((index, number), "pool"), {}, allowed)
        for edge, behind in graph.of[index]:
            if routers[behind].decides not in _MAY_BE_BEHIND[router.decides]:
                kinds = " or for each request" if Decides.REQUESTS in _MAY_BE_BEHIND[router.decides] else ""
                allowed = (
                    f"a cluster, or a router that decides on names{kinds}: router {router.name} {_ONLY_CONNECTIONS} can"
                    " lead to any router"
                )
                yield GraphMistake(_target(edge, "router"), routers[behind].name, allowed)


_MAY_BE_BEHIND: Mapping[Decides, Collection[Decides]] = MappingProxyType(
    {
        Decides.NAMES: frozenset({Decides.NAMES}),
        Decides.REQUESTS: frozenset({Decides.NAMES, Decides.REQUESTS}),
        Decides.CONNECTIONS: frozenset(Decides),
    }
)
_ONLY_CONNECTIONS = "decides for each request; only one that chooses once for each connection, such as clients,"


def _target(edge: Edge, *key: str) -> KeyPath:
    router, route = edge
    return ("routers", router, "routes", route, "target", *key)


def _text(path: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
