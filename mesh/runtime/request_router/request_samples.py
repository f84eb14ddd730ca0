"""A router that decides for each request in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.request_router.runtime import RequestRouterRuntime
from mesh.runtime.router.router_samples import samples_of_leaves
from mesh.telemetry.metric_definitions import Sample


def samples_of(router: RequestRouterRuntime) -> Iterator[Sample]:
    yield from listener_samples(router.listener)
    for behind in router.routes.values():
        yield from samples_of_leaves(router.name, behind.leaves)
