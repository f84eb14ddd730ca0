"""Metrics of a relay, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kio.schema.errors import ErrorCode as KafkaError

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.runtime.relay.traffic import Traffic
from mesh.telemetry.metric_definitions import (
    RELAY_ERRORS,
    RELAY_LEGS,
    RELAY_LEGS_LOST,
    RELAY_REQUEST_BYTES,
    RELAY_REQUEST_SECONDS,
    RELAY_REQUESTS,
    RELAY_RESPONSE_BYTES,
    MetricSample,
)


def samples_of(relay: RelayRuntime) -> Iterator[MetricSample]:
    yield from listener_samples(relay.listener)
    yield from samples_of_nodes(relay.name, relay.nodes, relay.traffic, lambda node: node)


def samples_of_nodes(
    name: str, nodes: RelayNodes, traffic: Traffic, client_node_id: Callable[[int], int]
) -> Iterator[MetricSample]:
    """Yields the samples of nodes. name: the name of the virtual cluster. client_node_id: returns the id of a node as
    clients see it. -1 stands for no node, and stays."""
    for id, node in sorted(nodes.known.items()):
        yield MetricSample(RELAY_LEGS, (name, str(client_node_id(id))), node.legs)
    for id, of_node in traffic:
        for key, passed in sorted(of_node.apis.items()):
            labels = (name, str(client_node_id(id)), key.name)
            yield MetricSample(RELAY_REQUESTS, labels, passed.requests)
            yield MetricSample(RELAY_REQUEST_SECONDS, labels, passed.seconds)
            yield MetricSample(RELAY_REQUEST_BYTES, labels, passed.request_bytes)
            yield MetricSample(RELAY_RESPONSE_BYTES, labels, passed.answer_bytes)
            for code, count in sorted(passed.errors.items()):
                yield MetricSample(RELAY_ERRORS, (*labels, error_name(code)), count)
    for (id, reason), count in sorted(traffic.lost.items()):
        yield MetricSample(RELAY_LEGS_LOST, (name, str(client_node_id(id)), reason), count)


def error_name(code: int) -> str:
    """Returns Kafka's name of an error code; for an unknown code, its number."""
    try:
        return KafkaError(code).name.upper()
    except ValueError:
        return str(code)
