"""The interceptors of a virtual cluster, as they are configured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from mesh.app.configured_target import Services
from mesh.config.interceptor_checks import is_inline
from mesh.config.interceptors import InterceptorConfig
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import VirtualClusterConfig
from mesh.interceptors.chain import InterceptorName, Step
from mesh.interceptors.selection import ConfiguredInterceptor, Isolation, Selection
from mesh.interceptors.spi import On
from mesh.interceptors.worker import steps_of
from mesh.runtime.interception.judging import Judges
from mesh.runtime.interception.stage import Interceptors
from mesh.runtime.interception.topic_names import AskMetadata, TopicNames
from mesh.runtime.interception.workers import Workers, WorkerSettings


def interceptors_of(configured: VirtualClusterConfig, services: Services, ask: AskMetadata) -> Interceptors | None:
    """None if it has none. ask: about topics as its clients know them. Raises ConfigurationError for one that cannot
    begin."""
    named = _named(configured, services.interceptors)
    if not named:
        return None
    selection = Selection([_configured(each) for each in named])
    # One that is made here and runs in workers is not used: what it cannot begin with is told at the start.
    steps = dict[InterceptorName, Step]()
    for each in named:
        steps |= _step(each, services)
    workers = None
    if any(not is_inline(each) for each in named):
        settings = services.interceptor_workers
        made = WorkerSettings(settings.count, settings.memory, settings.tasks, [_sent(each) for each in named])
        workers = Workers(configured.name, made)
    return Interceptors(Judges(configured.name, selection, steps, workers, time.monotonic), TopicNames(ask))


def is_intercepting_fetch(configured: VirtualClusterConfig, interceptors: Iterable[InterceptorConfig]) -> bool:
    """interceptors: all of the configuration."""
    return any(On.FETCH in each.on for each in _named(configured, interceptors))


def _named(configured: VirtualClusterConfig, interceptors: Iterable[InterceptorConfig]) -> list[InterceptorConfig]:
    by_name = {each.name: each for each in interceptors}
    return [by_name[name] for name in configured.interceptors]


def _configured(each: InterceptorConfig) -> ConfiguredInterceptor:
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


def _sent(each: InterceptorConfig) -> dict[str, Any]:
    """As a worker is told of it."""
    return {"name": each.name, "type": each.type, "config": each.config, "on_failure": each.on_failure.value}


def _step(each: InterceptorConfig, services: Services) -> dict[InterceptorName, Step]:
    try:
        return steps_of([_sent(each)])
    except Exception as problem:
        index = list(services.interceptors).index(each)
        allowed = f"what its type can begin with: {type(problem).__name__}: {problem}"
        raise ConfigurationError([Mistake(("interceptors", index, "config"), "", allowed)]) from problem
