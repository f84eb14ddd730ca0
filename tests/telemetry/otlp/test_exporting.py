"""Spans and metrics at a collector: the data that arrive, and the log entries when they do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from mesh.telemetry.metrics import Metrics
from mesh.telemetry.otlp.exporting import Collector, Measurements
from mesh.telemetry.otlp.metrics import data_of, whole
from mesh.telemetry.otlp.tracing import Tracing
from mesh.wire.errors import ErrorCode
from tests.telemetry.otlp.receiver import Receiver
from tests.telemetry.test_journal import note


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def collector_of(receiver: Receiver) -> Collector:
    return Collector(receiver.endpoint + "/", {"x-tenant": "shop"}, None, 5.0, "mesh-1")


def test_spans_that_are_open_are_sent_at_the_end(receiver: Receiver) -> None:
    tracing = Tracing(collector_of(receiver), 1, 100)
    for first in range(3):
        tracing.add("shop", note(first))
    tracing.close()
    assert [span.name for span in receiver.spans] == ["deliver orders"] * 3
    assert receiver.services == {"kafka-mesh"}
    assert receiver.headers["x-tenant"] == "shop"


def test_a_collector_that_refuses_is_told_once(receiver: Receiver) -> None:
    measurements = Measurements(collector_of(receiver))
    data = data_of([], collector_of(receiver).resource, 1, 2)
    with capture_logs() as told:
        for receiver.refuses in (True, True, False, False):
            measurements.export(data)
    measurements.shutdown()
    events = [entry["event"] for entry in told]
    assert events == ["telemetry cannot be exported", "telemetry exported again"]


def test_metrics_are_those_of_prometheus(receiver: Receiver) -> None:
    metrics = Metrics()
    for seconds in (0.0002, 0.003, 20.0):
        metrics.request("shop", "FETCH", ErrorCode.NONE, seconds)
    metrics.journal(5, "written")
    data = data_of(whole(metrics.families()), collector_of(receiver).resource, 1_000, 2_000)
    measurements = Measurements(collector_of(receiver))
    measurements.export(data)
    measurements.shutdown()
    found = {metric.name: metric for metric in receiver.metrics()}
    (point,) = found["kafka_mesh_request_seconds"].histogram.data_points
    assert (point.count, point.sum) == (3, pytest.approx(20.0032))
    assert point.bucket_counts[0] == 1
    assert point.bucket_counts[-1] == 1
    assert sum(point.bucket_counts) == 3
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    counter = found["kafka_mesh_journal_events_total"].sum
    assert counter.is_monotonic
    values = {each.attributes[0].value.string_value: each.as_double for each in counter.data_points}
    assert values["written"] == 5.0
    assert counter.data_points[0].start_time_unix_nano == 1_000
    assert found["process_resident_memory_bytes"].gauge.data_points[0].as_double > 0
