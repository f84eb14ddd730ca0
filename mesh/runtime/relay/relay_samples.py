"""A relay in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode as KafkaError

from mesh.listener.samples import samples_of as listener_samples
from mesh.runtime.relay.runtime import RelayRuntime
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
    name = relay.name
    for id, node in sorted(relay.nodes.known.items()):
        yield Sample(RELAY_LEGS, (name, str(id)), node.legs)
    for id, traffic in relay.traffic:
        for key, passed in sorted(traffic.apis.items()):
            labels = (name, str(id), key.name)
            yield Sample(RELAY_REQUESTS, labels, passed.requests)
            yield Sample(RELAY_REQUEST_SECONDS, labels, passed.seconds)
            yield Sample(RELAY_REQUEST_BYTES, labels, passed.request_bytes)
            yield Sample(RELAY_RESPONSE_BYTES, labels, passed.answer_bytes)
            for code, count in sorted(passed.errors.items()):
                yield Sample(RELAY_ERRORS, (*labels, _name_of(code)), count)
    for (id, reason), count in sorted(relay.traffic.lost.items()):
        yield Sample(RELAY_LEGS_LOST, (name, str(id), reason), count)


def _name_of(code: int) -> str:
    """Kafka's; the number of one that came later than what is known here."""
    try:
        return KafkaError(code).name.upper()
    except ValueError:
        return str(code)
