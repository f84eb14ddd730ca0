"""Routers that choose by connection behind each other, as one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.routing.graph import Decides, Graph, Leaf, PoolEnd, Router
from mesh.routing.names import Path, RouteName, RouterName
from mesh.routing.spi import Client, ConnectionRouter, Refused, Undecided


class Choices(ConnectionRouter):
    """All routers of a graph that choose by connection. What it chooses is a whole way of routes, written with `/`
    between them. What one has chosen that has no such route leads nowhere: it is not among `ways`.

    ways: all that can be chosen, each with what is there: a cluster, a pool, or another kind of router.
    """

    def __init__(self, graph: Graph, routers: Mapping[RouterName, ConnectionRouter]) -> None:
        """routers: at least those of the graph that choose by connection, of which its root is one."""
        self._graph = graph
        self._routers = routers
        self.ways: Mapping[RouteName, Path] = {way_name(path): path for path in _ways(graph, ())}

    def choose(self, client: Client) -> RouteName | Refused | Undecided:
        """Whichever router is undecided, all are asked again."""
        path: Path = ()
        while (name := way_name(path)) not in self.ways:
            behind = self._graph.at(path)
            assert isinstance(behind, Router), "all that can be chosen else is a way"
            chosen = self._routers[behind.name].choose(client)
            if isinstance(chosen, Refused | Undecided):
                return chosen
            path = (*path, chosen)
            if all(chosen != route.name for route in behind.routes):
                return way_name(path)
        return name

    def on_the_way(self, way: RouteName) -> tuple[RouterName, ...]:
        """The routers that choose it, and all that are behind it. Raises KeyError."""
        path = self.ways[way]
        choosing = [self._graph.at(path[:length]) for length in range(len(path))]
        names = [each.name for each in choosing if isinstance(each, Router)]
        return (*names, *self._graph.behind(path))

    def end(self, way: RouteName) -> Leaf | PoolEnd | Router:
        """What is there. Raises KeyError."""
        return self._graph.at(self.ways[way])


def way_name(path: Path) -> RouteName:
    return RouteName("/".join(path))


def _ways(graph: Graph, path: Path) -> Iterator[Path]:
    behind = graph.at(path)
    if isinstance(behind, Router) and behind.decides is Decides.CONNECTIONS:
        for route in behind.routes:
            yield from _ways(graph, (*path, route.name))
    else:
        yield path
