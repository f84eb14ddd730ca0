"""Metrics of a router, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.entity_router.leaves import Leaves
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.relay.relay_samples import error_name, samples_of_nodes
from mesh.runtime.relay.traffic import Passed, Traffic
from mesh.telemetry.metric_definitions import (
    MOVE_RECORDS_LEFT,
    ROUTE_ERRORS,
    ROUTE_REQUEST_SECONDS,
    ROUTE_REQUESTS,
    ROUTE_UNANSWERED,
    MetricSample,
)
from mesh.wire.apis import ApiKey


def samples_of(router: EntityRouterRuntime) -> Iterator[MetricSample]:
    """Yields the samples of a relay for each leaf, with the node ids that clients see. Samples without a node belong to
    the default leaf."""
    yield from listener_samples(router.listener)
    yield from samples_of_leaves(router.name, router.leaves)
    for mover in tuple(router.moves.movers) if router.moves is not None else ():
        if (left := mover.left) is not None:
            yield MetricSample(MOVE_RECORDS_LEFT, (router.name, mover.move.topic), left)


def samples_of_leaves(name: str, leaves: Leaves) -> Iterator[MetricSample]:
    """Yields the samples of all leaves. name: the name of the virtual cluster."""
    for leaf in tuple(leaves):
        client_node_id = partial(leaves.ids.virtual, leaf.number)
        yield from samples_of_nodes(name, leaf.nodes, leaf.services.traffic, client_node_id)
        yield from _samples_of_route(name, leaf.path, leaf.services.traffic)


def _samples_of_route(name: str, path: str, traffic: Traffic) -> Iterator[MetricSample]:
    """Yields the samples of all nodes of a leaf together. path: the routes that lead to the leaf."""
    apis: dict[ApiKey, Passed] = {}
    for _, node in traffic:
        for key, passed in node.apis.items():
            apis.setdefault(key, Passed()).add(passed)
    for key, passed in sorted(apis.items()):
        labels = (name, path, key.name)
        yield MetricSample(ROUTE_REQUESTS, labels, passed.requests)
        yield MetricSample(ROUTE_REQUEST_SECONDS, labels, passed.seconds)
        for code, count in sorted(passed.errors.items()):
            yield MetricSample(ROUTE_ERRORS, (*labels, error_name(code)), count)
    for (key, reason), count in sorted(traffic.unanswered.items()):
        yield MetricSample(ROUTE_UNANSWERED, (name, path, key.name, reason), count)
