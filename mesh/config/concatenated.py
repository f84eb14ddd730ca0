"""Checks of concatenated topics: of the routes to their parts, and that partitions keep their numbers when a router
changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.config.finding import Finding
from mesh.config.graphs import configured
from mesh.config.mistakes import KeyPath, Mistake, format_path, show
from mesh.config.routers import RouterConfig, ToClusterConfig
from mesh.routing.routers.topics import TopicsConfig


def check_parts(router: RouterConfig, path: KeyPath) -> Iterator[Finding]:
    """Finds the mistakes in the parts of concatenated topics. path: the path of this router."""
    _, config = configured(router)
    if not isinstance(config, TopicsConfig):
        return
    routes = {route.name: (index, route) for index, route in enumerate(router.routes)}
    for index, topic in enumerate(config.concatenated):
        for number, part in enumerate(topic.parts):
            if part.route not in routes:
                continue  # another check reports it
            place, route = routes[part.route]
            key, other = (*path, "config", "concatenated", index, "parts", number, "route"), (*path, "routes", place)
            if not isinstance(route.target, ToClusterConfig):
                allowed = f"a route to a cluster; {format_path(other)} leads elsewhere"
                yield Finding(key, part.route, allowed, ((*other, "target"),))
            elif route.interceptors:
                allowed = (
                    "a route without interceptors, which know the partitions of its cluster; those of the virtual"
                    f" cluster may have some, or {format_path(other)} none"
                )
                yield Finding(key, part.route, allowed, ((*other, "interceptors"),))


def moved_partitions(before: Sequence[RouterConfig], after: Sequence[RouterConfig]) -> Iterator[Mistake]:
    """Yields the mistakes of a reload that would renumber partitions that clients know."""
    old = {router.name: router for router in before}
    for index, router in enumerate(after):
        if (was := old.get(router.name)) is None or was.type != router.type:
            continue
        _, config = configured(router)
        _, earlier = configured(was)
        if isinstance(config, TopicsConfig) and isinstance(earlier, TopicsConfig):
            for name, place in config.moved_from(earlier):
                path: KeyPath = ("routers", index, "config", "concatenated", place)
                allowed = "unchanged, except for a wider last part and parts behind it: partitions keep their numbers"
                yield Mistake(path, show(name), f"{allowed} while kafka-mesh runs")
