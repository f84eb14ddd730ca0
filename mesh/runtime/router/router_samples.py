"""A router in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.relay.relay_samples import samples_of_nodes
from mesh.runtime.router.runtime import RouterRuntime
from mesh.telemetry.metric_definitions import Sample


def samples_of(router: RouterRuntime) -> Iterator[Sample]:
    """Those of a relay for each leaf, with the node ids that clients see. What is without a node is the default
    leaf's."""
    yield from listener_samples(router.listener)
    for leaf in router.leaves:
        told = partial(router.leaves.ids.virtual, leaf.number)
        yield from samples_of_nodes(router.name, leaf.nodes, leaf.services.traffic, told)
