"""The union: one cluster for clients, made from the clusters behind routers that decide by names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mesh.routing.concatenated import Concatenated, Concatenations, concatenate
from mesh.routing.graph import Graph, GraphRouter, Leaf
from mesh.routing.names import LeafNumber, Path, RouteName, RouterName
from mesh.routing.spi import EntityRouter, PartPlace


class Owner(NamedTuple):
    """The one leaf that has a topic, and the topic's name there."""

    leaf: LeafNumber
    topic: str


class UnknownRoute(Exception):
    """Raised if a router returns a route that it does not have. This is a defect of the router."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A router in a union, with the targets of its routes."""

    name: RouterName
    path: Path
    router: EntityRouter
    routes: Mapping[RouteName, _Level | LeafNumber]
    concatenated: Mapping[str, Sequence[PartPlace]]

    def behind(self, route: RouteName) -> _Level | LeafNumber:
        try:
            return self.routes[route]
        except KeyError:
            allowed = f"one of {', '.join(self.routes)}"
            raise UnknownRoute(f"router {self.name} has chosen route {route!r} and not {allowed}") from None


class Union:
    """A router that decides by names, with everything behind it. Its routers are called for each lookup; their results
    are not cached.

    leaves: the leaves of this union, in the order of their numbers in the graph.
    """

    def __init__(self, graph: Graph, routers: Mapping[RouterName, EntityRouter], path: Path = ()) -> None:
        """routers: the routers to which the root of the union leads; it may contain others. path: the routes from the
        root of the graph to the root of the union, if other routers are in front of it. Raises ValueError if the root
        does not decide by names, or leads to anything but such routers and clusters."""
        self._root = _level(graph, routers, path, path)
        self._path = path
        self.leaves: tuple[Leaf, ...] = tuple(each for each in graph.leaves if each.path[: len(path)] == path)
        self._routers_to = {leaf.number: tuple(self._routers_on(leaf.path[len(path) :])) for leaf in self.leaves}
        self.concatenated: Final = Concatenations(self._concatenated(self._root))

    def owner(self, topic: str) -> Owner | None:
        """Returns the owner of a topic, by its clients' name. None: the topic does not exist and cannot be created, or
        it is concatenated and so in `concatenated`."""
        level = self._root
        while topic not in level.concatenated and (place := level.router.topic(topic)) is not None:
            topic, behind = place.topic, level.behind(place.route)
            if not isinstance(behind, _Level):
                return Owner(behind, topic) if self.concatenated.part(behind, topic) is None else None
            level = behind
        return None

    def path_to(self, topic: str) -> Sequence[tuple[Path, str]]:
        """Returns the path to a topic, by its clients' name: for each route on it the routes so far, and the topic's
        name behind them. The path ends at a router that does not have the topic, or that concatenates it."""
        found, path = path_with_same_name(self._path, topic), self._path
        behind: _Level | LeafNumber = self._root
        while isinstance(behind, _Level) and topic not in behind.concatenated:
            if (place := behind.router.topic(topic)) is None:
                break
            topic, path, behind = place.topic, (*path, place.route), behind.behind(place.route)
            found.append((path, topic))
        return found

    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        """Returns the clients' name of a topic of a leaf. None: the topic is hidden, or its name belongs to another
        topic."""
        return self.client_names(leaf, (topic,)).get(topic)

    def client_names(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        """Returns the clients' names of these topics of a leaf, without hidden ones. For a part it is the name of the
        concatenated topic."""
        topics = tuple(topics)
        names = {topic: topic for topic in topics}
        for router, route in self._routers_to[leaf]:
            called = router.topics_of(route, tuple(names.values()))
            names = {topic: called[name] for topic, name in names.items() if name in called}
        shown = {topic: name for topic, name in names.items() if self.owner(name) == (leaf, topic)}
        if self.concatenated.has_parts_at(leaf):
            parts = ((topic, self.concatenated.part(leaf, topic)) for topic in topics)
            shown |= {topic: part.name for topic, part in parts if part is not None}
        return shown

    def group_home(self, id: str) -> LeafNumber:
        return self._home(lambda router: router.group(id))

    def transaction_home(self, id: str) -> LeafNumber:
        return self._home(lambda router: router.transactional_id(id))

    @property
    def default(self) -> LeafNumber:
        """The home of requests that name nothing."""
        return self._home(lambda router: router.default)

    def renames(self, leaf: LeafNumber) -> bool:
        """Returns True if clients may know a topic of this leaf by another name."""
        return any(router.renames(route) for router, route in self._routers_to[leaf]) or self.concatenated.renames(leaf)

    def _concatenated(self, level: _Level) -> Iterator[Concatenated]:
        """Yields the concatenated topics of a router and of those behind it, under the clients' names."""
        for name, places in level.concatenated.items():
            parts = []
            for place in places:
                leaf = level.behind(place.route)
                if isinstance(leaf, _Level):
                    raise ValueError(f"a part of {name} is behind route {place.route}, which leads to no cluster")
                parts.append((leaf, place.topic, place.width))
            if (shown := self._shown_of(level.path, name)) is not None:
                yield concatenate(shown, "/".join((*level.path, places[0].route)), parts)
        for behind in level.routes.values():
            if isinstance(behind, _Level):
                yield from self._concatenated(behind)

    def _shown_of(self, path: Path, name: str) -> str | None:
        """Returns the clients' name of a topic of the router at the end of a path. None: clients do not see it."""
        shown: str | None = name
        for router, route in self._routers_on(path):
            shown = router.topics_of(route, (shown,)).get(shown) if shown is not None else None
        return shown

    def _home(self, choose: Callable[[EntityRouter], RouteName]) -> LeafNumber:
        behind: _Level | LeafNumber = self._root
        while isinstance(behind, _Level):
            behind = behind.behind(choose(behind.router))
        return behind

    def _routers_on(self, path: Path) -> Iterator[tuple[EntityRouter, RouteName]]:
        """Returns the routers on a path, each with its route, the last one first."""
        steps: list[tuple[EntityRouter, RouteName]] = []
        level: _Level | LeafNumber = self._root
        for route in path:
            assert isinstance(level, _Level), "a path of the graph"
            steps.append((level.router, route))
            level = level.routes[route]
        return reversed(steps)


def path_with_same_name(path: Path, topic: str) -> list[tuple[Path, str]]:
    """Returns the routes on a path on which the topic's name does not change, in the form of `Union.path_to`."""
    return [(path[:length], topic) for length in range(1, len(path) + 1)]


def _level(graph: Graph, routers: Mapping[RouterName, EntityRouter], root: Path, path: Path) -> _Level:
    """Returns the level of a router, with those behind it. root: the routes to the root of the union. path: the routes
    to this router."""
    found = graph.at(path)
    if not isinstance(found, GraphRouter) or found.name not in routers:
        raise ValueError(f"{'/'.join(path) or graph.root} does not lead to a router that goes by names")
    routes: dict[RouteName, _Level | LeafNumber] = {}
    for route in found.routes:
        behind = graph.at((*path, route.name))
        routes[route.name] = (
            behind.number if isinstance(behind, Leaf) else _level(graph, routers, root, (*path, route.name))
        )
    router = routers[found.name]
    return _Level(found.name, path[len(root) :], router, routes, router.concatenated())
