"""Combines routers that choose by connection, one behind another, into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.routing.graph import Decides, Graph, GraphRouter, Leaf, PoolEnd
from mesh.routing.names import Path, RouteName, RouterName
from mesh.routing.spi import Client, ConnectionRouter, Refused, Undecided


class Choices(ConnectionRouter):
    """Combines all routers of a graph that choose by connection. A choice is a whole path of routes, their names joined
    by `/`. A router that chooses a route that it does not have leads nowhere: that choice is not among `paths`.

    paths: all possible choices, each with its path to a cluster, a pool, or a router of another kind.
    """

    def __init__(self, graph: Graph, routers: Mapping[RouterName, ConnectionRouter]) -> None:
        """routers: all routers of the graph that choose by connection, including its root. It may contain others."""
        self._graph = graph
        self._routers = routers
        self.paths: Mapping[RouteName, Path] = {path_name(path): path for path in _paths(graph, ())}

    def choose(self, client: Client) -> RouteName | Refused | Undecided:
        """Returns the choice for a client. If any router is undecided, all of them are asked again later."""
        path: Path = ()
        while (name := path_name(path)) not in self.paths:
            behind = self._graph.at(path)
            assert isinstance(behind, GraphRouter), "all else that can be chosen is a choice"
            chosen = self._routers[behind.name].choose(client)
            if isinstance(chosen, Refused | Undecided):
                return chosen
            path = (*path, chosen)
            if all(chosen != route.name for route in behind.routes):
                return path_name(path)
        return name

    def routers_on_path(self, choice: RouteName) -> tuple[RouterName, ...]:
        """Returns the routers that make a choice, and all routers behind its end. Raises KeyError."""
        path = self.paths[choice]
        choosing = [self._graph.at(path[:length]) for length in range(len(path))]
        names = [each.name for each in choosing if isinstance(each, GraphRouter)]
        return (*names, *self._graph.behind(path))

    def end(self, choice: RouteName) -> Leaf | PoolEnd | GraphRouter:
        """Returns the cluster, pool or router to which a choice leads. Raises KeyError."""
        return self._graph.at(self.paths[choice])


def path_name(path: Path) -> RouteName:
    return RouteName("/".join(path))


def _paths(graph: Graph, path: Path) -> Iterator[Path]:
    behind = graph.at(path)
    if isinstance(behind, GraphRouter) and behind.decides is Decides.CONNECTIONS:
        for route in behind.routes:
            yield from _paths(graph, (*path, route.name))
    else:
        yield path
