"""The paths of records from a virtual cluster, over routes, to pools and clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mesh.config.mistakes import KeyPath
from mesh.config.model import PoolTargetConfig, VirtualClusterConfig
from mesh.config.routers import RouterConfig, RouterTargetConfig, ToPoolConfig, ToRouterConfig
from mesh.interceptors.chain import InterceptorName
from mesh.routing.names import RouteName, RouterName


@dataclass(frozen=True, slots=True)
class RoutePath:
    """The routes from a virtual cluster to a cluster or a pool. interceptors: the interceptors of these routes,
    from the first on, each with the place where it is named."""

    routes: tuple[RouteName, ...] = ()
    interceptors: tuple[tuple[KeyPath, InterceptorName], ...] = ()
    leads_to_pool: bool = False
    _passed: tuple[RouterName, ...] = field(default=(), repr=False)


def route_paths_of(virtual_cluster: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> Iterator[RoutePath]:
    """Yields all paths of routes from a virtual cluster. Missing routers, and those in a circle, lead nowhere."""
    target = virtual_cluster.target
    if isinstance(target, RouterTargetConfig):
        yield from _behind(target.router.name, RoutePath(), routers)
    else:
        yield RoutePath(leads_to_pool=isinstance(target, PoolTargetConfig))


def _behind(root: RouterName, route_path: RoutePath, routers: Sequence[RouterConfig]) -> Iterator[RoutePath]:
    index = next((index for index, each in enumerate(routers) if each.name == root), None)
    if index is None or root in route_path._passed:
        return
    for place, route in enumerate(routers[index].routes):
        path: KeyPath = ("routers", index, "routes", place, "interceptors")
        named = tuple(((*path, number), name) for number, name in enumerate(route.interceptors))
        here = RoutePath(
            (*route_path.routes, route.name),
            (*route_path.interceptors, *named),
            isinstance(route.target, ToPoolConfig),
            (*route_path._passed, root),
        )
        if isinstance(route.target, ToRouterConfig):
            yield from _behind(route.target.router, here, routers)
        else:
            yield here
