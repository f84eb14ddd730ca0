"""Metrics of a cluster that clients see as one node, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.one_node.runtime import OneNodeRuntime
from mesh.runtime.relay.relay_samples import samples_of_nodes
from mesh.telemetry.metric_definitions import MetricSample


def samples_of(target: OneNodeRuntime) -> Iterator[MetricSample]:
    """Yields the samples of a relay, with the broker ids of the cluster."""
    yield from listener_samples(target.listener)
    yield from samples_of_nodes(target.name, target.nodes, target.traffic, lambda node: node)
