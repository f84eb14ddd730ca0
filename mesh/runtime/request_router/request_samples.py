"""Metrics of a router that decides for each request, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.entity_router.router_samples import samples_of_leaves
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.telemetry.metric_definitions import MetricSample


def samples_of(router: RequestRouterRuntime) -> Iterator[MetricSample]:
    yield from listener_samples(router.listener)
    for union in tuple(router.unions):
        yield from samples_of_leaves(router.name, union.leaves)
