"""From delivery events to spans."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from mesh.pool.common.delivery_events import DeliveryEvent, DeliveryEventType, Holder
from mesh.pool.common.ids import GroupId
from mesh.records.batch import RecordBatch
from mesh.records.encode import encode_batch
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.telemetry.otlp.delivery_spans import MOST_LINKS, DeliverySpans, links_of

SOURCE = UpstreamPartition(ClusterName("eu"), TopicName("orders"), 3)
OTHER = UpstreamPartition(ClusterName("eu"), TopicName("orders"), 4)
HOLDER = Holder("member-1", "billing-7", "10.0.0.7")
K = DeliveryEventType


class Bench:
    def __init__(self, one_in: int = 1, limit: int = 100) -> None:
        self._ended = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._ended))
        self.spans = DeliverySpans(provider.get_tracer("tested"), one_in, limit)
        self._time = 1_000

    def add(
        self, kind: K, first: int = 0, last: int = 9, source: UpstreamPartition = SOURCE, **more: Any
    ) -> list[ReadableSpan]:
        """The spans that an event has ended."""
        self._time += 1_000
        before = len(self._ended.get_finished_spans())
        event = DeliveryEvent(GroupId("billing"), kind, source, first, last, more.pop("holder", HOLDER), **more)
        self.spans.add("shop", event, self._time)
        return list(self._ended.get_finished_spans()[before:])


def events(span: ReadableSpan) -> list[tuple[str, dict[str, object]]]:
    return [(event.name, dict(event.attributes or {})) for event in span.events]


def test_a_delivery_that_is_acknowledged_in_two_steps() -> None:
    bench = Bench()
    assert bench.add(K.DELIVERED, deliveries=1, produced=5) == []
    assert bench.add(K.ACKNOWLEDGED, 0, 3) == []
    assert bench.add(K.ACKNOWLEDGED, 0, 9, OTHER) == [], "another partition"
    (span,) = bench.add(K.ACKNOWLEDGED, 4, 20)
    assert (span.name, span.start_time, span.end_time) == ("deliver orders", 2_000, 5_000)
    assert events(span) == [
        ("produced", {}),
        ("acknowledged", {"kafka_mesh.first": 0, "kafka_mesh.count": 4}),
        ("acknowledged", {"kafka_mesh.first": 4, "kafka_mesh.count": 6}),
    ]
    assert span.events[0].timestamp == 5_000_000
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "deliver",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.consumer.group.name": "billing",
        "messaging.client.id": "billing-7",
        "messaging.batch.message_count": 10,
        "messaging.kafka.offset": 0,
        "client.address": "10.0.0.7",
        "kafka_mesh.virtual_cluster": "shop",
        "kafka_mesh.cluster": "eu",
        "kafka_mesh.member": "member-1",
        "kafka_mesh.last_offset": 9,
        "kafka_mesh.deliveries": 1,
        "kafka_mesh.outcome": "acknowledged",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert len(bench.spans) == 0


def test_one_that_is_taken_from_its_member_is_an_error_and_its_next_delivery_another_span() -> None:
    bench = Bench()
    bench.add(K.DELIVERED)
    (first,) = bench.add(K.EXPIRED)
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "expired")
    bench.add(K.REDELIVERED, deliveries=2)
    (second,) = bench.add(K.ACKNOWLEDGED)
    assert (second.attributes or {})["kafka_mesh.deliveries"] == 2


def test_a_partition_that_goes_away_ends_its_spans() -> None:
    bench = Bench()
    bench.add(K.DELIVERED)
    bench.add(K.DELIVERED, 10, 19)
    bench.add(K.DELIVERED, source=OTHER)
    assert [(span.attributes or {})["kafka_mesh.outcome"] for span in bench.add(K.REVOKED, 0, -1)] == ["revoked"] * 2
    assert len(bench.spans) == 1


def test_one_in_three_has_a_span() -> None:
    bench = Bench(one_in=3)
    for number in range(9):
        bench.add(K.DELIVERED, number, number)
    assert len(bench.add(K.ACKNOWLEDGED, 0, 8)) == 3


def test_the_oldest_ends_for_one_too_many() -> None:
    bench = Bench(limit=2)
    bench.add(K.DELIVERED, 0, 0)
    bench.add(K.DELIVERED, 1, 1)
    (span,) = bench.add(K.DELIVERED, 2, 2)
    assert (span.attributes or {})["messaging.kafka.offset"] == 0
    assert (span.attributes or {})["kafka_mesh.outcome"] == "unknown"
    assert len(bench.add(K.ACKNOWLEDGED, 0, 2)) == 2


def batch_of(*values: bytes | None) -> RecordBatch:
    records = [(number, 0, None, b"v", [("traceparent", value)]) for number, value in enumerate(values)]
    return encode_batch(0, records)


GOOD = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_links_to_producers() -> None:
    (link,) = links_of(batch_of(GOOD, GOOD, None))
    assert f"{link.context.trace_id:032x}-{link.context.span_id:016x}" == GOOD[3:-3].decode()
    assert link.context.is_remote
    assert link.context.trace_flags.sampled
    bench = Bench()
    bench.add(K.DELIVERED, batch=batch_of(GOOD))
    (span,) = bench.add(K.ACKNOWLEDGED)
    assert [each.context for each in span.links] == [link.context]


def test_headers_that_are_no_traces() -> None:
    bad = [b"", b"\xff", b"00-0-0-00", b"01" + GOOD[2:], GOOD + b"-1", b"00-" + b"0" * 32 + GOOD[35:]]
    assert list(links_of(batch_of(*bad))) == []
    damaged = batch_of(GOOD)
    damaged.record_count = 2
    assert list(links_of(damaged)) == []


def test_links_are_bounded() -> None:
    many = [b"00-%032x-%016x-00" % (number + 1, number + 1) for number in range(MOST_LINKS + 50)]
    assert len(list(links_of(batch_of(*many)))) == MOST_LINKS
