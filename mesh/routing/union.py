"""What routers that go by names make of the clusters behind them: one cluster, to clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mesh.routing.graph import Graph, Leaf, Router
from mesh.routing.names import LeafNumber, Path, RouteName, RouterName
from mesh.routing.spi import EntityRouter


class Owner(NamedTuple):
    """The one leaf that has a topic, and what it is called there."""

    leaf: LeafNumber
    topic: str


class UnknownRoute(Exception):
    """A router has named a route that it has not: a defect of the router."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A router with what is behind each of its routes."""

    name: RouterName
    router: EntityRouter
    routes: Mapping[RouteName, _Level | LeafNumber]

    def behind(self, route: RouteName) -> _Level | LeafNumber:
        try:
            return self.routes[route]
        except KeyError:
            allowed = f"one of {', '.join(self.routes)}"
            raise UnknownRoute(f"router {self.name} has chosen route {route!r} and not {allowed}") from None


class Union:
    """A router that goes by names, with all behind it. Its routers are asked each time: what they say is not kept.

    leaves: of this union, in the order of their numbers, which are those of the graph.
    """

    def __init__(self, graph: Graph, routers: Mapping[RouterName, EntityRouter], path: Path = ()) -> None:
        """routers: at least those that can be reached from the root of the union. path: the routes that lead to this
        root from that of the graph, where others stand in front of it. Raises ValueError if it is no router of names,
        or leads to something else than such routers and clusters."""
        self._root = _level(graph, routers, path)
        self._path = path
        self.leaves: tuple[Leaf, ...] = tuple(each for each in graph.leaves if each.path[: len(path)] == path)
        self._ways = {leaf.number: tuple(self._way(leaf.path[len(path) :])) for leaf in self.leaves}

    def owner(self, topic: str) -> Owner | None:
        """Of what clients call so. None: there is no such topic, and it cannot be created."""
        level = self._root
        while (place := level.router.topic(topic)) is not None:
            topic, behind = place.topic, level.behind(place.route)
            if not isinstance(behind, _Level):
                return Owner(behind, topic)
            level = behind
        return None

    def way(self, topic: str) -> Sequence[tuple[Path, str]]:
        """The routes that lead to what clients call so: each with all in front of it, and what the topic is called
        behind it. They end where there is no such topic."""
        found, path = way_to(self._path, topic), self._path
        behind: _Level | LeafNumber = self._root
        while isinstance(behind, _Level) and (place := behind.router.topic(topic)) is not None:
            topic, path, behind = place.topic, (*path, place.route), behind.behind(place.route)
            found.append((path, topic))
        return found

    def shown(self, leaf: LeafNumber, topic: str) -> str | None:
        """What clients call a topic of a leaf. None: it is hidden, or another topic has that name."""
        return self.all_shown(leaf, (topic,)).get(topic)

    def all_shown(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        """What clients call these topics of a leaf; those that are hidden are left out."""
        names = {topic: topic for topic in topics}
        for router, route in self._ways[leaf]:
            called = router.topics_of(route, tuple(names.values()))
            names = {topic: called[name] for topic, name in names.items() if name in called}
        return {topic: name for topic, name in names.items() if self.owner(name) == (leaf, topic)}

    def group_home(self, id: str) -> LeafNumber:
        return self._home(lambda router: router.group(id))

    def transaction_home(self, id: str) -> LeafNumber:
        return self._home(lambda router: router.transactional_id(id))

    @property
    def default(self) -> LeafNumber:
        """The home of what has no name."""
        return self._home(lambda router: router.default)

    def renames(self, leaf: LeafNumber) -> bool:
        """Whether clients may call a topic of this leaf otherwise."""
        return any(router.renames(route) for router, route in self._ways[leaf])

    def _home(self, choose: Callable[[EntityRouter], RouteName]) -> LeafNumber:
        behind: _Level | LeafNumber = self._root
        while isinstance(behind, _Level):
            behind = behind.behind(choose(behind.router))
        return behind

    def _way(self, path: Path) -> Iterator[tuple[EntityRouter, RouteName]]:
        """The routers above a leaf with their routes, the nearest one first."""
        steps: list[tuple[EntityRouter, RouteName]] = []
        level: _Level | LeafNumber = self._root
        for route in path:
            assert isinstance(level, _Level), "a path of the graph"
            steps.append((level.router, route))
            level = level.routes[route]
        return reversed(steps)


def way_to(path: Path, topic: str) -> list[tuple[Path, str]]:
    """The routes to a place, where none of them changes the name of a topic: see `Union.way`."""
    return [(path[:length], topic) for length in range(1, len(path) + 1)]


def _level(graph: Graph, routers: Mapping[RouterName, EntityRouter], path: Path) -> _Level:
    found = graph.at(path)
    if not isinstance(found, Router) or found.name not in routers:
        raise ValueError(f"{'/'.join(path) or graph.root} does not lead to a router that goes by names")
    routes: dict[RouteName, _Level | LeafNumber] = {}
    for route in found.routes:
        behind = graph.at((*path, route.name))
        routes[route.name] = behind.number if isinstance(behind, Leaf) else _level(graph, routers, (*path, route.name))
    return _Level(found.name, routers[found.name], routes)
