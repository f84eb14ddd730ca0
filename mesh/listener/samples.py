"""Metrics of the connections of a virtual cluster, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.listener.listener import Listener
from mesh.telemetry.metric_definitions import CONNECTIONS, REQUESTS_IN_WORK, UNREAD_BYTES, MetricSample


def samples_of(listener: Listener) -> Iterator[MetricSample]:
    labels = (listener.name,)
    yield MetricSample(CONNECTIONS, labels, len(listener.connections))
    yield MetricSample(UNREAD_BYTES, labels, listener.admission.unread)
    yield MetricSample(REQUESTS_IN_WORK, labels, sum(each.is_busy for each in listener.connections.values()))
