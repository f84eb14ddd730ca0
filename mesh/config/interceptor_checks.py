"""What interceptors must be together with their types, and with the virtual clusters that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from mesh.config.finding import Finding, Missing
from mesh.config.interceptors import InterceptorConfig, IsolationConfig
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config, PoolTargetConfig
from mesh.config.router_types import UnknownType as UnknownRouter
from mesh.config.router_types import factory_of
from mesh.config.routers import RouterTargetConfig
from mesh.config.validation import allowed_by, keys_in, value_at
from mesh.interceptors.chain import OnFailure
from mesh.interceptors.shipped import SHIPPED
from mesh.interceptors.spi import AsyncInterceptor, Effect, On, Reads
from mesh.interceptors.types import InterceptorClass, UnknownType, class_of
from mesh.routing.graph import Decides
from mesh.routing.names import RouterName


def check_interceptors(config: Config) -> Iterator[Finding]:
    names: dict[str, KeyPath] = {}
    for index, each in enumerate(config.interceptors):
        path: KeyPath = ("interceptors", index)
        first = names.setdefault(each.name, (*path, "name"))
        if first != (*path, "name"):
            yield Finding((*path, "name"), each.name, f"a name of its own; {format_path(first)} is the same", (first,))
        yield from _interceptor(each, path)
    yield from _virtual_clusters(config, names)


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


def _virtual_clusters(config: Config, names: dict[str, KeyPath]) -> Iterator[Finding]:
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        path: KeyPath = ("virtual_clusters", index, "interceptors")
        seen: set[str] = set()
        for number, name in enumerate(virtual_cluster.interceptors):
            if name not in names:
                defined = ", ".join(names) or "none are defined"
                yield Finding((*path, number), name, f"one of the interceptors: {defined}", (("interceptors",),))
            elif name in seen:
                yield Finding((*path, number), name, "named once")
            seen.add(name)
        if not virtual_cluster.interceptors:
            continue
        target = virtual_cluster.target
        if isinstance(target, PoolTargetConfig):
            allowed = "left out: interceptors run in relays and behind routers that go by names, not in pools yet"
            yield Finding(path, virtual_cluster.interceptors, allowed)
        elif isinstance(target, RouterTargetConfig) and not _goes_by_names(config, target.router.name):
            allowed = "left out: interceptors run behind routers that go by names only, so far"
            yield Finding(path, virtual_cluster.interceptors, allowed, (("routers",),))


def _goes_by_names(config: Config, router: RouterName) -> bool:
    """Also if it is not known what there is to go by."""
    for each in config.routers:
        if each.name == router:
            try:
                return factory_of(each.type).decides is Decides.NAMES
            except UnknownRouter:
                return True
    return True
