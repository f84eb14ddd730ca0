"""Shows where each interceptor of a configuration runs."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.config.graphs import routers_behind
from mesh.config.interceptor_checks import is_inline
from mesh.config.interceptors import InterceptorConfig
from mesh.config.model import Config, PoolTargetConfig
from mesh.config.routers import RouterTargetConfig, ToPoolConfig
from mesh.interceptors.spi import On


def interceptors_of(config: Config) -> Iterator[str]:
    """Yields a line for each interceptor of each virtual cluster, and of each route behind it."""
    by_name = {each.name: each for each in config.interceptors}
    for virtual_cluster in config.virtual_clusters:
        where, target = f"virtual cluster {virtual_cluster.name}", virtual_cluster.target
        for name in virtual_cluster.interceptors:
            yield _line(where, by_name[name], config, is_pool=isinstance(target, PoolTargetConfig))
        if not isinstance(target, RouterTargetConfig):
            continue
        for router in routers_behind(config.routers, target.router.name):
            for route in router.routes:
                for name in route.interceptors:
                    here = f"{where}, router {router.name}, route {route.name}"
                    yield _line(here, by_name[name], config, is_pool=isinstance(route.target, ToPoolConfig))


def _line(where: str, each: InterceptorConfig, config: Config, *, is_pool: bool) -> str:
    runs = "inline" if is_inline(each) else f"in {config.interceptor_workers.count} workers"
    on = [side.value for side in each.on if not is_pool or side is On.FETCH]
    said = " and ".join(on) if on else "nothing: records come into a pool by fetch only"
    return f"{where}: {each.name} ({each.type}) runs {runs}, on {said}, topics {', '.join(each.topics)}"
