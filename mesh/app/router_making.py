"""From routers in a configuration to routers at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.config.graphs import configured as configured_router
from mesh.config.graphs import router_of
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.routers import RouterConfig
from mesh.routing.graph import Decides, Graph, compile_graph
from mesh.routing.names import RouterName
from mesh.routing.spi import AnyRouter, ConnectionRouter, EntityRouter, FactoryContext


def graph_behind(routers: Sequence[RouterConfig], root: RouterName) -> Graph:
    return compile_graph([router_of(each, *configured_router(each)) for each in routers], root)


def made(graph: Graph, routers: Sequence[RouterConfig], virtual_cluster: str) -> dict[RouterName, AnyRouter]:
    """The routers of a graph. Raises ConfigurationError for one that cannot begin, or that does not run yet."""
    return {
        each.name: _made(each, ("routers", index), graph.root, virtual_cluster)
        for index, each in enumerate(routers)
        if each.name in graph.routers
    }


def by_names(routers: Mapping[RouterName, AnyRouter]) -> dict[RouterName, EntityRouter]:
    return {name: each for name, each in routers.items() if isinstance(each, EntityRouter)}


def _made(router: RouterConfig, path: KeyPath, root: RouterName, virtual_cluster: str) -> AnyRouter:
    factory, config = configured_router(router)
    if factory.decides is Decides.REQUESTS:
        allowed = "a type of router that goes by names or by connections: of others no more than the config is checked"
        raise ConfigurationError([Mistake((*path, "type"), router.type, allowed)])
    if factory.decides is Decides.CONNECTIONS and router.name != root:
        allowed = "a type of router that goes by names: one that goes by connections stands in front of all others"
        raise ConfigurationError([Mistake((*path, "type"), router.type, allowed)])
    context = FactoryContext(router.name, virtual_cluster, tuple(route.name for route in router.routes))
    try:
        begun = factory.create_router(context, factory.initialize(context, config))
    except Exception as problem:
        allowed = f"what its type can begin with: {type(problem).__name__}: {problem}"
        raise ConfigurationError([Mistake((*path, "config"), "", allowed)]) from problem
    kind = EntityRouter if factory.decides is Decides.NAMES else ConnectionRouter
    assert isinstance(begun, kind), "what its factory says that it decides on"
    return begun
