"""The interceptors of a virtual cluster and of the routes behind it, built from the configuration."""

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
from mesh.interceptors.chain import ChainStep, InterceptorName
from mesh.interceptors.selection import (
    ConfiguredInterceptor,
    InterceptionPoint,
    Isolation,
    PointsOf,
    Selection,
    may_drop_produced,
)
from mesh.interceptors.sequences import Sequences
from mesh.interceptors.spi import CannotBegin, Effect, On
from mesh.interceptors.types import class_of
from mesh.interceptors.worker import steps_of
from mesh.routing.graph import Graph, GraphRouter
from mesh.routing.names import Path
from mesh.routing.union import path_with_same_name
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.interception.interception_samples import samples_of
from mesh.runtime.interception.interceptor_runner import InterceptorRunner
from mesh.runtime.interception.topic_names import AskMetadata, TopicNames
from mesh.runtime.interception.workers import Workers, WorkerSettings
from mesh.runtime.pool.intercepted_engine import IntakeInterceptors, NumberOf
from mesh.telemetry.metric_definitions import MetricSample
from mesh.wire.trees import Tree


class NamesByRoute(Protocol):
    """The names of topics behind each of the routes to them: those of a union, or of one cluster in its place."""

    def path_to(self, topic: str) -> Sequence[tuple[Path, str]]: ...


class ConfiguredInterceptors:
    """The interceptors of one virtual cluster, and of the routes of a graph. runner: None if there are none."""

    def __init__(self, configured: VirtualClusterConfig, services: Services, graph: Graph | None = None) -> None:
        """graph: the graph behind the virtual cluster, if it leads to a router."""
        by_name = {each.name: each for each in services.interceptors}
        self._by_name = by_name
        self._first = _configured(by_name, configured.interceptors)
        self._of_routes: dict[Path, tuple[ConfiguredInterceptor, ...]] = {}
        self.rearrange(graph, services.routers)
        self._all = tuple(dict.fromkeys((*self._first, *(each for of in self._of_routes.values() for each in of))))
        self.may_drop_produced = may_drop_produced(self._all)
        self._sequences: list[Sequences] = []
        self._sequence_bytes = configured.interceptor_sequences
        self._at_once = services.interceptor_workers.count
        self.runner = _runner(configured.name, [by_name[each.name] for each in self._all], services)

    def rearrange(self, graph: Graph | None, routers: Sequence[RouterConfig]) -> None:
        """Takes over changed routers: routes with the same interceptors may be at other places of the graph."""
        self._of_routes = {path: _configured(self._by_name, names) for path, names in _routes(routers, graph)}

    def for_names(self, names: NamesByRoute, ask: AskMetadata) -> Interceptors | None:
        """Returns the interceptors of the virtual cluster and of all routes behind these names; None if there are none.
        ask: answers Metadata requests with the names that clients use."""
        return self._interceptors(self.points(names), ask)

    def up_to(self, path: Path, passed: Path | None = None) -> Interceptors | None:
        """Returns the interceptors of the virtual cluster and of the routes to a place up to which topics keep their
        names. passed: a place on the way whose interceptors have seen the records already; then only those of later
        routes count."""
        if passed is not None:
            of_routes = (path[: len(each)] == each and len(each) > len(passed) for each in self._of_routes)
            return self.after(passed, OneName(path), _nobody_knows) if any(of_routes) else None
        if not self._first and not any(path[: len(each)] == each for each in self._of_routes):
            return None
        return self.for_names(OneName(path), _nobody_knows)

    def for_pool(self, path: Path, number: NumberOf) -> IntakeInterceptors | None:
        """Returns the interceptors of the virtual cluster, and of the routes to a pool; None if none of them sees
        fetched records."""
        if self.runner is None:
            return None
        of_routes = [each for route, of in self._of_routes.items() if path[: len(route)] == route for each in of]
        if not any(On.FETCH in each.on for each in (*self._first, *of_routes)):
            return None
        selection = Selection(self._all, self.points(OneName(path)))
        return IntakeInterceptors(self.runner, selection, number, asyncio.Semaphore(self._at_once))

    def after(self, path: Path, names: NamesByRoute, ask: AskMetadata) -> Interceptors | None:
        """Returns the interceptors of the routes behind a place; None if there are none. ask: answers Metadata requests
        with the names that are used there."""
        if not any(each[: len(path)] == path and each != path for each in self._of_routes):
            return None
        return self._interceptors(lambda topic: self._of_ways(names, topic, len(path)), ask)

    def has_no_interceptors(self, path: Path) -> bool:
        """Returns whether the routes to a place have no interceptors."""
        return not any(path[: len(each)] == each for each in self._of_routes)

    def points(self, names: NamesByRoute) -> PointsOf:
        return lambda topic: (InterceptionPoint(self._first, topic), *self._of_ways(names, topic))

    def samples(self) -> Iterator[MetricSample]:
        if self.runner is not None:
            yield from samples_of(self.runner, self._sequences if self.may_drop_produced else ())

    def close(self) -> None:
        if self.runner is not None:
            self.runner.close()

    def _interceptors(self, points_of: PointsOf, ask: AskMetadata) -> Interceptors | None:
        if self.runner is None:
            return None
        sequences = Sequences(self._sequence_bytes)
        self._sequences.append(sequences)
        return Interceptors(self.runner, Selection(self._all, points_of), TopicNames(ask), sequences)

    def _of_ways(self, names: NamesByRoute, topic: str, passed: int = 0) -> tuple[InterceptionPoint, ...]:
        """Returns the interceptors of routes, without those of the virtual cluster."""
        if not self._of_routes:
            return ()
        return tuple(
            InterceptionPoint(self._of_routes[path], name, "/".join(path))
            for path, name in names.path_to(topic)
            if len(path) > passed and path in self._of_routes
        )


class OneName:
    """A topic that keeps its name on all routes to a place. Implements `NamesByRoute`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def path_to(self, topic: str) -> Sequence[tuple[Path, str]]:
        return path_with_same_name(self._path, topic)


async def _nobody_knows(_: Tree) -> Tree:
    return {"topics": []}


def interceptors_of(
    configured: VirtualClusterConfig, interceptors: Sequence[InterceptorConfig], routers: Sequence[RouterConfig]
) -> dict[InterceptorName, ChainStep]:
    """Makes the interceptors that see the records of a virtual cluster. interceptors, routers: those of the
    configuration. Raises ConfigurationError for one that cannot be made.

    It also makes those that run in workers and are not used here, so that a mistake in their configuration shows at the
    start.
    """
    names, steps = interceptors_behind(configured, routers), dict[InterceptorName, ChainStep]()
    for index, each in enumerate(interceptors):
        if each.name in names:
            steps |= _step(each, index)
    return steps


def intercepts_fetch(
    configured: VirtualClusterConfig, interceptors: Iterable[InterceptorConfig], routers: Sequence[RouterConfig]
) -> bool:
    """Returns whether an interceptor sees the records that clients fetch. interceptors, routers: all of the
    configuration."""
    names = interceptors_behind(configured, routers)
    return any(each.name in names and On.FETCH in each.on for each in interceptors)


def _routes(routers: Sequence[RouterConfig], graph: Graph | None) -> Iterator[tuple[Path, tuple[InterceptorName, ...]]]:
    """Yields all routes of a graph that have interceptors, each with the path that ends with it."""
    if graph is None:
        return
    by_name = {each.name: each for each in routers}
    waiting: list[Path] = [()]
    while waiting:
        path = waiting.pop()
        router = graph.at(path)
        if not isinstance(router, GraphRouter) or router.name not in by_name:
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
        class_of(each.type).effect is Effect.FILTER,
    )


def _runner(virtual_cluster: str, named: Sequence[InterceptorConfig], services: Services) -> InterceptorRunner | None:
    """Makes the runner of the interceptors; None if there are none."""
    if not named:
        return None
    workers = None
    if any(not is_inline(each) for each in named):
        settings = services.interceptor_workers
        made = WorkerSettings(settings.count, settings.memory, settings.tasks, [_sent(each) for each in named])
        workers = Workers(virtual_cluster, made)
    steps = {each.name: services.parts.steps[each.name] for each in named}
    return InterceptorRunner(virtual_cluster, steps, workers, time.monotonic)


def _sent(each: InterceptorConfig) -> dict[str, Any]:
    """Returns the description of an interceptor for a worker."""
    return {"name": each.name, "type": each.type, "config": each.config, "on_failure": each.on_failure.value}


def _step(each: InterceptorConfig, index: int) -> dict[InterceptorName, ChainStep]:
    try:
        return steps_of([_sent(each)])
    except Exception as problem:
        path: KeyPath = ("interceptors", index, "config")
        if isinstance(problem, CannotBegin):
            mistake = Mistake((*path, *problem.key.split(".")), show(problem.value), problem.allowed)
        else:
            mistake = Mistake(path, "", f"values that its type accepts: {type(problem).__name__}: {problem}")
        raise ConfigurationError([mistake]) from problem
