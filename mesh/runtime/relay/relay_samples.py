"""A relay in numbers, at the time of a scrape."""

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
    Sample,
)


def samples_of(relay: RelayRuntime) -> Iterator[Sample]:
    yield from listener_samples(relay.listener)
    yield from samples_of_nodes(relay.name, relay.nodes, relay.traffic, lambda node: node)


def samples_of_nodes(name: str, nodes: RelayNodes, traffic: Traffic, told: Callable[[int], int]) -> Iterator[Sample]:
    """name: of the virtual cluster. told: what clients call a node; -1, for none, stays."""
    for id, node in sorted(nodes.known.items()):
        yield Sample(RELAY_LEGS, (name, str(told(id))), node.legs)
    for id, of_node in traffic:
        for key, passed in sorted(of_node.apis.items()):
            labels = (name, str(told(id)), key.name)
            yield Sample(RELAY_REQUESTS, labels, passed.requests)
            yield Sample(RELAY_REQUEST_SECONDS, labels, passed.seconds)
            yield Sample(RELAY_REQUEST_BYTES, labels, passed.request_bytes)
            yield Sample(RELAY_RESPONSE_BYTES, labels, passed.answer_bytes)
            for code, count in sorted(passed.errors.items()):
                yield Sample(RELAY_ERRORS, (*labels, error_name(code)), count)
    for (id, reason), count in sorted(traffic.lost.items()):
        yield Sample(RELAY_LEGS_LOST, (name, str(told(id)), reason), count)


def error_name(code: int) -> str:
    """Kafka's; the number of one that came later than what is known here."""
    try:
        return KafkaError(code).name.upper()
    except ValueError:
        return str(code)
