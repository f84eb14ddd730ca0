"""The connections of a virtual cluster in numbers, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.listener import Listener
from mesh.telemetry.metric_definitions import CONNECTIONS, REQUESTS_IN_WORK, UNREAD_BYTES, Sample


def samples_of(listener: Listener) -> Iterator[Sample]:
    labels = (listener.name,)
    yield Sample(CONNECTIONS, labels, len(listener.connections))
    yield Sample(UNREAD_BYTES, labels, listener.admission.unread)
    yield Sample(REQUESTS_IN_WORK, labels, sum(each.is_busy for each in listener.connections.values()))
