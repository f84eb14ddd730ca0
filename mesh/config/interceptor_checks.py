"""Checks of interceptors together with their types, and with the virtual clusters and routes that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from mesh.config.finding import Finding, Missing
from mesh.config.interceptors import InterceptorConfig, IsolationConfig
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config
from mesh.config.route_paths import route_paths_of
from mesh.config.validation import allowed_by, keys_in, value_at
from mesh.interceptors.chain import InterceptorName, OnFailure
from mesh.interceptors.shipped import SHIPPED
from mesh.interceptors.spi import AsyncInterceptor, Effect, On, Reads
from mesh.interceptors.types import InterceptorClass, UnknownInterceptorType, class_of


def check_interceptors(config: Config) -> Iterator[Finding]:
    names: dict[str, KeyPath] = {}
    for index, each in enumerate(config.interceptors):
        path: KeyPath = ("interceptors", index)
        first = names.setdefault(each.name, (*path, "name"))
        if first != (*path, "name"):
            yield Finding((*path, "name"), each.name, f"a name of its own; {format_path(first)} is the same", (first,))
        yield from _interceptor(each, path)
    yield from _places(config, names)
    yield from _along_route_paths(config)


def is_inline(configured: InterceptorConfig) -> bool:
    """Returns whether it runs on the thread that serves all clients. Its type must exist."""
    match configured.isolation:
        case IsolationConfig.AUTO:
            kind = SHIPPED.get(configured.type)
            return kind is not None and kind.reads <= Reads.HEADERS and not issubclass(kind, AsyncInterceptor)
        case isolation:
            return isolation is IsolationConfig.INLINE


def _interceptor(each: InterceptorConfig, path: KeyPath) -> Iterator[Finding]:
    for key, values in (("topics", each.topics), ("on", each.on), ("principals", each.principals)):
        if not values:
            yield Finding((*path, key), (), "at least one")
    if On.PRODUCE in each.on and each.on_failure is OnFailure.DROP:
        allowed = "fail, reject or pass where on has produce: only the interceptor may drop a producer's records"
        yield Finding((*path, "on_failure"), "drop", allowed, ((*path, "on"),))
    if On.FETCH in each.on and each.on_failure is OnFailure.REJECT:
        yield Finding((*path, "on_failure"), "reject", "fail, pass or drop where on has fetch", ((*path, "on"),))
    try:
        kind = class_of(each.type)
    except UnknownInterceptorType as problem:
        yield Finding((*path, "type"), each.type, str(problem))
        return
    yield from _kind(each, kind, path)
    yield from _config(each, kind, path)


def _kind(each: InterceptorConfig, kind: InterceptorClass, path: KeyPath) -> Iterator[Finding]:
    on = (*path, "on")
    if missing := [each.value for each in each.on if each not in kind.on]:
        allowed = f"[{', '.join(sorted(side.value for side in kind.on))}] for the type {each.type}"
        yield Finding(on, ", ".join(missing), allowed, ((*path, "type"),))
    if kind.reads is Reads.BATCH and kind.effect is not Effect.CHECK:
        yield Finding((*path, "type"), each.type, "a type with effect CHECK where it reads no more than the batch")
    if each.isolation is IsolationConfig.INLINE and issubclass(kind, AsyncInterceptor):
        allowed = "process, or left out: inline, every client would wait with an asynchronous interceptor"
        yield Finding((*path, "isolation"), "inline", allowed, ((*path, "type"),))


def _config(each: InterceptorConfig, kind: InterceptorClass, path: KeyPath) -> Iterator[Finding]:
    at, data = (*path, "config"), each.config
    try:
        kind.config.model_validate(data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            keys = keys_in(data, details)
            value: Any = Missing() if details["type"] == "missing" else value_at(data, keys)
            yield Finding((*at, *keys), value, allowed_by(kind.config, details), ((*path, "type"),))


def _places(config: Config, names: dict[str, KeyPath]) -> Iterator[Finding]:
    """Checks that virtual clusters and routes name existing interceptors, each of them once."""
    named: list[tuple[KeyPath, Sequence[InterceptorName]]] = [
        (("virtual_clusters", index, "interceptors"), each.interceptors)
        for index, each in enumerate(config.virtual_clusters)
    ]
    named += [
        (("routers", index, "routes", place, "interceptors"), route.interceptors)
        for index, router in enumerate(config.routers)
        for place, route in enumerate(router.routes)
    ]
    for path, interceptors in named:
        seen: set[str] = set()
        for number, name in enumerate(interceptors):
            if name not in names:
                defined = ", ".join(names) or "none are defined"
                yield Finding((*path, number), name, f"one of the interceptors: {defined}", _DEFINED)
            elif name in seen:
                yield Finding((*path, number), name, "named once")
            seen.add(name)


def _along_route_paths(config: Config) -> Iterator[Finding]:
    """Checks the interceptors that records pass one after the other on each path of routes from a virtual cluster."""
    by_name = {each.name: each for each in config.interceptors}
    found: dict[KeyPath, Finding] = {}
    leads_elsewhere: dict[KeyPath, bool] = {}
    """Whether a place leads to more than pools."""
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        path: KeyPath = ("virtual_clusters", index, "interceptors")
        first = [((*path, number), name) for number, name in enumerate(virtual_cluster.interceptors)]
        for route_path in route_paths_of(virtual_cluster, config.routers):
            named = [*first, *route_path.interceptors]
            for each in (*_twice(named), *(_in_a_pool(named, by_name) if route_path.leads_to_pool else ())):
                found.setdefault(each.path, each)
            for place, name in named:
                if name in by_name and On.FETCH not in by_name[name].on:
                    leads_elsewhere[place] = leads_elsewhere.get(place, False) or not route_path.leads_to_pool
    yield from found.values()
    for place, is_seeing in leads_elsewhere.items():
        if not is_seeing:
            yield Finding(place, "[produce]", "an interceptor with fetch in on: a pool only fetches", _DEFINED)


_DEFINED: Final[tuple[KeyPath, ...]] = (("interceptors",),)
_Named: TypeAlias = Sequence[tuple[KeyPath, InterceptorName]]
"""Interceptors, each with the place that names it."""


def _twice(named: _Named) -> Iterator[Finding]:
    seen: dict[str, KeyPath] = {}
    for path, name in named:
        first = seen.setdefault(name, path)
        if first[:-1] != path[:-1]:
            allowed = f"an interceptor that is not on this way already: {format_path(first)} is in front of it"
            yield Finding(path, name, allowed, (first,))


def _in_a_pool(named: _Named, by_name: Mapping[InterceptorName, InterceptorConfig]) -> Iterator[Finding]:
    for path, name in named:
        each = by_name.get(name)
        if each is None or On.FETCH not in each.on:
            continue
        if each.principals != ("*",):
            allowed = (
                "an interceptor without principals: in a pool the mesh does not know yet which member gets the records"
            )
            yield Finding(path, name, allowed, _DEFINED)
