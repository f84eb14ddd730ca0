"""A router in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.relay.relay_samples import error_name, samples_of_nodes
from mesh.runtime.relay.traffic import Passed, Traffic
from mesh.runtime.router.leaves import Leaves
from mesh.runtime.router.runtime import RouterRuntime
from mesh.telemetry.metric_definitions import (
    ROUTE_ERRORS,
    ROUTE_REQUEST_SECONDS,
    ROUTE_REQUESTS,
    ROUTE_UNANSWERED,
    Sample,
)
from mesh.wire.apis import ApiKey


def samples_of(router: RouterRuntime) -> Iterator[Sample]:
    """Those of a relay for each leaf, with the node ids that clients see. What is without a node is the default
    leaf's."""
    yield from listener_samples(router.listener)
    yield from samples_of_leaves(router.name, router.leaves)


def samples_of_leaves(name: str, leaves: Leaves) -> Iterator[Sample]:
    """name: of the virtual cluster."""
    for leaf in leaves:
        told = partial(leaves.ids.virtual, leaf.number)
        yield from samples_of_nodes(name, leaf.nodes, leaf.services.traffic, told)
        yield from _samples_of_route(name, leaf.path, leaf.services.traffic)


def _samples_of_route(name: str, path: str, traffic: Traffic) -> Iterator[Sample]:
    """All nodes of a leaf together. path: of the routes that lead to it."""
    apis: dict[ApiKey, Passed] = {}
    for _, node in traffic:
        for key, passed in node.apis.items():
            apis.setdefault(key, Passed()).add(passed)
    for key, passed in sorted(apis.items()):
        labels = (name, path, key.name)
        yield Sample(ROUTE_REQUESTS, labels, passed.requests)
        yield Sample(ROUTE_REQUEST_SECONDS, labels, passed.seconds)
        for code, count in sorted(passed.errors.items()):
            yield Sample(ROUTE_ERRORS, (*labels, error_name(code)), count)
    for (key, reason), count in sorted(traffic.unanswered.items()):
        yield Sample(ROUTE_UNANSWERED, (name, path, key.name, reason), count)
