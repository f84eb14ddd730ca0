"""Makes the routers of a configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mesh.config.graphs import configured as configured_router
from mesh.config.graphs import router_of
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.routers import RouterConfig
from mesh.routing.graph import Decides, Graph, GraphRouter, ToCluster, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.served import common_of
from mesh.routing.spi import AnyRouter, ConnectionRouter, EntityRouter, FactoryContext, Router, RouterFactory, Served
from mesh.runtime.request_router.services import RouterKind
from mesh.runtime.request_router.static_legs import routable
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey

log = get_logger(__name__)


def graph_behind(routers: Sequence[RouterConfig], root: RouterName) -> Graph:
    return compile_graph([router_of(each, *configured_router(each)) for each in routers], root)


@dataclass(frozen=True, slots=True)
class _Made:
    """A router that was made. shared: the object that its factory makes for all routers of a virtual cluster. path: its
    place in the configuration."""

    factory: RouterFactory[Any, Any]
    context: FactoryContext
    shared: object
    path: KeyPath

    def another(self) -> AnyRouter:
        """Makes another router. Raises ConfigurationError if its factory fails."""
        try:
            router = self.factory.create_router(self.context, self.shared)
        except Exception as problem:
            raise _cannot_begin(self.path, problem) from problem
        assert isinstance(router, _KINDS[self.factory.decides]), "what its factory says that it decides on"
        return router


_WITH_RECORDS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_KINDS = {Decides.NAMES: EntityRouter, Decides.CONNECTIONS: ConnectionRouter, Decides.REQUESTS: Router}


class Routers:
    """The routers behind one virtual cluster. If a router decides for each request, each connection has its own; of
    others there is one."""

    def __init__(self, graph: Graph, routers: Sequence[RouterConfig], virtual_cluster: str) -> None:
        """Raises ConfigurationError for a router that cannot be made; then none is left."""
        self._made: dict[RouterName, _Made] = {}
        self._standing: dict[RouterName, AnyRouter] = {}
        self._kinds: dict[RouterName, RouterKind] = {}
        try:
            for index, each in enumerate(routers):
                if each.name in graph.routers:
                    self._begin(each, ("routers", index), virtual_cluster, graph.routers[each.name])
        except ConfigurationError:
            self.close()
            raise

    @property
    def by_names(self) -> dict[RouterName, EntityRouter]:
        return {name: each for name, each in self._standing.items() if isinstance(each, EntityRouter)}

    @property
    def by_connections(self) -> dict[RouterName, ConnectionRouter]:
        return {name: each for name, each in self._standing.items() if isinstance(each, ConnectionRouter)}

    def serves(self, names: Iterable[RouterName]) -> Served | None:
        """Returns the APIs and versions that all of these routers let clients use; None for all that the runtime
        serves."""
        return common_of(self._serves(name) for name in names)

    def of_requests(self, name: RouterName) -> RouterKind:
        """Returns the kind of a router that decides for each request. Raises KeyError for a router of another kind."""
        return self._kinds[name]

    def _serves(self, name: RouterName) -> Served | None:
        return self._kinds[name].serves if name in self._kinds else self._standing[name].serves()

    def close(self) -> None:
        """Tells each factory that its routers have ended."""
        made, self._made = self._made, {}
        for name, each in made.items():
            try:
                each.factory.close(each.shared)
            except Exception:
                log.exception("router failed to close", virtual_cluster=each.context.virtual_cluster, router=name)

    def _begin(self, router: RouterConfig, path: KeyPath, virtual_cluster: str, in_graph: GraphRouter) -> None:
        factory, config = configured_router(router)
        context = FactoryContext(router.name, virtual_cluster, tuple(route.name for route in router.routes))
        try:
            shared = factory.initialize(context, config)
        except Exception as problem:
            raise _cannot_begin(path, problem) from problem
        made = self._made[router.name] = _Made(factory, context, shared, path)
        if factory.decides is Decides.REQUESTS:
            to_clusters = [each.name for each in in_graph.routes if isinstance(each.target, ToCluster)]
            intercepted = [each.name for each in router.routes if each.interceptors]
            self._kinds[router.name] = _kind(made, to_clusters, intercepted)
        else:
            self._standing[router.name] = made.another()


def _kind(made: _Made, to_clusters: Collection[RouteName], intercepted: Collection[RouteName]) -> RouterKind:
    """Returns the kind of a router that decides for each request. to_clusters: the routes that lead to a cluster.
    intercepted: the routes that have interceptors. Raises ConfigurationError for static routes that are not allowed."""

    def make() -> Router:
        router = made.another()
        assert isinstance(router, Router), "another kind is standing"
        return router

    one = make()
    static, serves = dict(one.static_routes()), one.serves()
    one.close()
    for api, route in static.items():
        if route not in to_clusters:
            allowed = f"static routes to routes that lead to a cluster: {', '.join(sorted(to_clusters)) or 'none'}"
        elif not routable(api):
            allowed = "static routes of APIs without nodes in them: others have to be translated"
        elif route in intercepted and api in _WITH_RECORDS:
            allowed = (
                f"no static route of PRODUCE and FETCH to {route}, whose interceptors would not see these requests"
            )
        else:
            continue
        raise ConfigurationError([Mistake((*made.path, "config"), f"{api.name}: {route}", allowed)])
    return RouterKind(make, static, serves)


def _cannot_begin(path: KeyPath, problem: Exception) -> ConfigurationError:
    allowed = f"values that its type accepts: {type(problem).__name__}: {problem}"
    return ConfigurationError([Mistake((*path, "config"), "", allowed)])
