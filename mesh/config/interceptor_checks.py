"""What interceptors must be together with their types, and with the virtual clusters that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from mesh.config.finding import Finding, Missing
from mesh.config.interceptors import InterceptorConfig, IsolationConfig
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config
from mesh.config.validation import allowed_by, keys_in, value_at
from mesh.config.ways import ways_of
from mesh.interceptors.chain import InterceptorName, OnFailure
from mesh.interceptors.shipped import SHIPPED
from mesh.interceptors.spi import AsyncInterceptor, Effect, On, Reads
from mesh.interceptors.types import InterceptorClass, UnknownType, class_of


def check_interceptors(config: Config) -> Iterator[Finding]:
    names: dict[str, KeyPath] = {}
    for index, each in enumerate(config.interceptors):
        path: KeyPath = ("interceptors", index)
        first = names.setdefault(each.name, (*path, "name"))
        if first != (*path, "name"):
            yield Finding((*path, "name"), each.name, f"a name of its own; {format_path(first)} is the same", (first,))
        yield from _interceptor(each, path)
    yield from _places(config, names)
    yield from _ways(config)


def is_inline(configured: InterceptorConfig) -> bool:
    """Whether it runs on the thread that serves everybody. Its type is one that there is."""
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
        allowed = "fail, reject or pass where on has produce: nothing of a producer's is dropped"
        yield Finding((*path, "on_failure"), "drop", allowed, ((*path, "on"),))
    if On.FETCH in each.on and each.on_failure is OnFailure.REJECT:
        yield Finding((*path, "on_failure"), "reject", "fail, pass or drop where on has fetch", ((*path, "on"),))
    try:
        kind = class_of(each.type)
    except UnknownType as problem:
        yield Finding((*path, "type"), each.type, str(problem))
        return
    yield from _kind(each, kind, path)
    yield from _config(each, kind, path)


def _kind(each: InterceptorConfig, kind: InterceptorClass, path: KeyPath) -> Iterator[Finding]:
    on = (*path, "on")
    if kind.effect is Effect.FILTER and On.PRODUCE in each.on:
        allowed = "[fetch]: an interceptor with effect FILTER may drop records, which producers' sequences do not allow"
        yield Finding(on, "produce", allowed, ((*path, "type"),))
    elif missing := [each.value for each in each.on if each not in kind.on]:
        allowed = f"[{', '.join(sorted(side.value for side in kind.on))}] for the type {each.type}"
        yield Finding(on, ", ".join(missing), allowed, ((*path, "type"),))
    if kind.reads is Reads.BATCH and kind.effect is not Effect.CHECK:
        yield Finding((*path, "type"), each.type, "a type with effect CHECK where it reads no more than the batch")
    if each.isolation is IsolationConfig.INLINE and issubclass(kind, AsyncInterceptor):
        allowed = "process, or left out: an asynchronous interceptor waits, and everybody would with it"
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
    """Virtual clusters and routes name interceptors that there are, each of them once."""
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


def _ways(config: Config) -> Iterator[Finding]:
    """What runs one behind the other on the way from a virtual cluster to what it leads to."""
    by_name = {each.name: each for each in config.interceptors}
    found: dict[KeyPath, Finding] = {}
    leads_elsewhere: dict[KeyPath, bool] = {}
    """By place: whether anything but pools is behind it."""
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        path: KeyPath = ("virtual_clusters", index, "interceptors")
        first = [((*path, number), name) for number, name in enumerate(virtual_cluster.interceptors)]
        for way in ways_of(virtual_cluster, config.routers):
            stops = [*first, *way.interceptors]
            for each in (*_twice(stops), *(_in_a_pool(stops, by_name) if way.leads_to_pool else ())):
                found.setdefault(each.path, each)
            for place, name in stops:
                if name in by_name and On.FETCH not in by_name[name].on:
                    leads_elsewhere[place] = leads_elsewhere.get(place, False) or not way.leads_to_pool
    yield from found.values()
    for place, is_seeing in leads_elsewhere.items():
        if not is_seeing:
            yield Finding(place, "[produce]", "an interceptor with fetch in on: so records come into pools", _DEFINED)


_DEFINED: Final[tuple[KeyPath, ...]] = (("interceptors",),)
_Stops: TypeAlias = Sequence[tuple[KeyPath, InterceptorName]]
"""Interceptors, each with the place where it is named."""


def _twice(stops: _Stops) -> Iterator[Finding]:
    seen: dict[str, KeyPath] = {}
    for path, name in stops:
        first = seen.setdefault(name, path)
        if first[:-1] != path[:-1]:
            allowed = f"one that sees the records only once on their way: {format_path(first)} is in front of it"
            yield Finding(path, name, allowed, (first,))


def _in_a_pool(stops: _Stops, by_name: Mapping[InterceptorName, InterceptorConfig]) -> Iterator[Finding]:
    for path, name in stops:
        each = by_name.get(name)
        if each is None or On.FETCH not in each.on:
            continue
        if each.principals != ("*",):
            allowed = "one without principals: a pool is behind it, where it is not known yet who gets the records"
            yield Finding(path, name, allowed, _DEFINED)
