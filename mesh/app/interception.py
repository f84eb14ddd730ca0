"""The interceptors of a virtual cluster and of the routes behind it, as they are configured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from mesh.app.configured_target import Services
from mesh.config.graphs import interceptors_behind
from mesh.config.interceptor_checks import is_inline
from mesh.config.interceptors import InterceptorConfig
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake, show
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.interceptors.chain import InterceptorName, Step
from mesh.interceptors.selection import ConfiguredInterceptor, Isolation, Selection, Stop, StopsOf
from mesh.interceptors.spi import CannotBegin, On
from mesh.interceptors.worker import steps_of
from mesh.routing.graph import Graph, Router
from mesh.routing.names import Path
from mesh.routing.union import way_to
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.interception.interception_samples import samples_of
from mesh.runtime.interception.judging import Judges
from mesh.runtime.interception.topic_names import AskMetadata, TopicNames
from mesh.runtime.interception.workers import Workers, WorkerSettings
from mesh.runtime.pool.intercepted_engine import Intake, NumberOf
from mesh.telemetry.metric_definitions import Sample
from mesh.wire.trees import Tree


class NamesOnTheWay(Protocol):
    """What topics are called behind each of the routes that lead to them: a union, or one cluster in its place."""

    def way(self, topic: str) -> Sequence[tuple[Path, str]]: ...


class ConfiguredInterceptors:
    """The interceptors of one virtual cluster, and of the routes of a graph. judges: None if there are none."""

    def __init__(self, configured: VirtualClusterConfig, services: Services, graph: Graph | None = None) -> None:
        """graph: behind the virtual cluster, if it leads to a router. Raises ConfigurationError for an interceptor that
        cannot begin."""
        by_name = {each.name: each for each in services.interceptors}
        self._by_name = by_name
        self._first = _configured(by_name, configured.interceptors)
        self._of_routes: dict[Path, tuple[ConfiguredInterceptor, ...]] = {}
        self.rearrange(graph, services.routers)
        self._all = tuple(dict.fromkeys((*self._first, *(each for of in self._of_routes.values() for each in of))))
        self._at_once = services.interceptor_workers.count
        self.judges = _judges(configured.name, [by_name[each.name] for each in self._all], services)

    def rearrange(self, graph: Graph | None, routers: Sequence[RouterConfig]) -> None:
        """Routes with the same interceptors may stand at other places from now on."""
        self._of_routes = {path: _configured(self._by_name, names) for path, names in _routes(routers, graph)}

    def on_the_way(self, names: NamesOnTheWay, ask: AskMetadata) -> Interceptors | None:
        """Those of the virtual cluster and of all routes that these names lead through; None if there are none. ask:
        about topics, as clients call them."""
        return self._interceptors(self.stops(names), ask)

    def in_front(self, path: Path) -> Interceptors | None:
        """Those of the virtual cluster and of the routes to a place where topics are called by their names only."""
        if not self._first and not any(path[: len(each)] == each for each in self._of_routes):
            return None
        return self.on_the_way(OneName(path), _nobody_knows)

    def at_intake(self, path: Path, number: NumberOf) -> Intake | None:
        """Those of the virtual cluster and of the routes to a pool; None if none of them sees what is fetched."""
        if self.judges is None:
            return None
        of_routes = [each for route, of in self._of_routes.items() if path[: len(route)] == route for each in of]
        if not any(On.FETCH in each.on for each in (*self._first, *of_routes)):
            return None
        selection = Selection(self._all, self.stops(OneName(path)))
        return Intake(self.judges, selection, number, asyncio.Semaphore(self._at_once))

    def behind(self, path: Path, names: NamesOnTheWay, ask: AskMetadata) -> Interceptors | None:
        """Those of the routes that lead on from a place; None if there are none. ask: about topics, as they are called
        there."""
        if not any(each[: len(path)] == path and each != path for each in self._of_routes):
            return None
        return self._interceptors(lambda topic: self._of_ways(names, topic, len(path)), ask)

    def stops(self, names: NamesOnTheWay) -> StopsOf:
        return lambda topic: (Stop(self._first, topic), *self._of_ways(names, topic))

    def samples(self) -> Iterator[Sample]:
        if self.judges is not None:
            yield from samples_of(self.judges)

    def close(self) -> None:
        if self.judges is not None:
            self.judges.close()

    def _interceptors(self, stops_of: StopsOf, ask: AskMetadata) -> Interceptors | None:
        if self.judges is None:
            return None
        return Interceptors(self.judges, Selection(self._all, stops_of), TopicNames(ask))

    def _of_ways(self, names: NamesOnTheWay, topic: str, passed: int = 0) -> tuple[Stop, ...]:
        """Those of routes, without the first ones."""
        if not self._of_routes:
            return ()
        return tuple(
            Stop(self._of_routes[path], name, "/".join(path))
            for path, name in names.way(topic)
            if len(path) > passed and path in self._of_routes
        )


class OneName:
    """A topic that keeps its name on all routes to a place. Implements `NamesOnTheWay`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def way(self, topic: str) -> Sequence[tuple[Path, str]]:
        return way_to(self._path, topic)


async def _nobody_knows(_: Tree) -> Tree:
    return {"topics": []}


def try_interceptors(
    configured: VirtualClusterConfig, interceptors: Sequence[InterceptorConfig], routers: Sequence[RouterConfig]
) -> None:
    """Raises ConfigurationError if one that sees its records cannot begin. interceptors, routers: of the
    configuration."""
    names = interceptors_behind(configured, routers)
    for index, each in enumerate(interceptors):
        if each.name in names:
            _step(each, index)


def intercepts_fetch(
    configured: VirtualClusterConfig, interceptors: Iterable[InterceptorConfig], routers: Sequence[RouterConfig]
) -> bool:
    """Whether an interceptor sees what clients fetch. interceptors, routers: all of the configuration."""
    names = interceptors_behind(configured, routers)
    return any(each.name in names and On.FETCH in each.on for each in interceptors)


def _routes(routers: Sequence[RouterConfig], graph: Graph | None) -> Iterator[tuple[Path, tuple[InterceptorName, ...]]]:
    """All routes of a graph that have interceptors, each with the path that ends with it."""
    if graph is None:
        return
    by_name = {each.name: each for each in routers}
    waiting: list[Path] = [()]
    while waiting:
        path = waiting.pop()
        router = graph.at(path)
        if not isinstance(router, Router) or router.name not in by_name:
            continue
        for route in by_name[router.name].routes:
            waiting.append(here := (*path, route.name))
            if route.interceptors:
                yield here, route.interceptors


def _configured(
    by_name: Mapping[InterceptorName, InterceptorConfig], names: Iterable[InterceptorName]
) -> tuple[ConfiguredInterceptor, ...]:
    return tuple(_one(by_name[name]) for name in names)


def _one(each: InterceptorConfig) -> ConfiguredInterceptor:
    return ConfiguredInterceptor(
        each.name,
        each.type,
        each.topics,
        frozenset(each.on),
        each.principals,
        each.timeout,
        each.retries,
        each.on_failure,
        Isolation.INLINE if is_inline(each) else Isolation.PROCESS,
    )


def _judges(virtual_cluster: str, named: Sequence[InterceptorConfig], services: Services) -> Judges | None:
    """None for none. Raises ConfigurationError for one that cannot begin."""
    if not named:
        return None
    # One that is made here and runs in workers is not used: what it cannot begin with is told at the start.
    steps = dict[InterceptorName, Step]()
    for each in named:
        steps |= _step(each, list(services.interceptors).index(each))
    workers = None
    if any(not is_inline(each) for each in named):
        settings = services.interceptor_workers
        made = WorkerSettings(settings.count, settings.memory, settings.tasks, [_sent(each) for each in named])
        workers = Workers(virtual_cluster, made)
    return Judges(virtual_cluster, steps, workers, time.monotonic)


def _sent(each: InterceptorConfig) -> dict[str, Any]:
    """As a worker is told of it."""
    return {"name": each.name, "type": each.type, "config": each.config, "on_failure": each.on_failure.value}


def _step(each: InterceptorConfig, index: int) -> dict[InterceptorName, Step]:
    try:
        return steps_of([_sent(each)])
    except Exception as problem:
        path: KeyPath = ("interceptors", index, "config")
        if isinstance(problem, CannotBegin):
            mistake = Mistake((*path, *problem.key.split(".")), show(problem.value), problem.allowed)
        else:
            mistake = Mistake(path, "", f"what its type can begin with: {type(problem).__name__}: {problem}")
        raise ConfigurationError([mistake]) from problem
