"""Metrics of a router that chooses by connection, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.connection_router.runtime import ConnectionRouterRuntime, RouteTarget
from mesh.runtime.entity_router.router_samples import samples_of as samples_of_router
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.pool.pool_samples import samples_of as samples_of_pool
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.request_router.request_samples import samples_of as samples_of_request_router
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.telemetry.metric_definitions import MetricSample


def samples_of(choice: ConnectionRouterRuntime) -> Iterator[MetricSample]:
    """Yields the samples of the listener and of all routes. Samples of routes with the same labels are added up. A
    sample without a node counts all nodes."""
    of_listener = list(listener_samples(choice.listener))
    yield from of_listener
    families = {each.family for each in of_listener}
    for behind in tuple(choice.routes.values()):
        yield from (sample for sample in _samples_behind(behind) if sample.family not in families)


def _samples_behind(route: RouteTarget) -> Iterator[MetricSample]:
    match route:
        case EntityRouterRuntime():
            return samples_of_router(route)
        case RequestRouterRuntime():
            return samples_of_request_router(route)
        case PoolRuntime():
            return samples_of_pool(route)
        case _:
            assert_never(route)
