"""A router that chooses by connection in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.choice.runtime import ChoiceRuntime
from mesh.runtime.pool.pool_samples import samples_of as samples_of_pool
from mesh.runtime.router.router_samples import samples_of as samples_of_router
from mesh.runtime.router.runtime import RouterRuntime
from mesh.telemetry.metric_definitions import Sample


def samples_of(choice: ChoiceRuntime) -> Iterator[Sample]:
    """Those of all routes. What is without a node is of all of them together."""
    of_listener = list(listener_samples(choice.listener))
    yield from of_listener
    families = {each.family for each in of_listener}
    found: dict[tuple[object, tuple[str, ...]], Sample] = {}
    for behind in choice.routes.values():
        of_route = samples_of_router(behind) if isinstance(behind, RouterRuntime) else samples_of_pool(behind)
        for sample in of_route:
            key = sample.family, sample.labels
            before = found[key].value if key in found else 0.0
            found[key] = Sample(sample.family, sample.labels, before + sample.value)
    yield from (sample for sample in found.values() if sample.family not in families)
