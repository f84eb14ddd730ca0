"""Spans and metrics of a mesh with members, as they reach a collector on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.telemetry.otlp.receiver import Receiver

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.timeout(120)
def test_what_is_delivered_has_spans(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("traced", 1)
    receiver = Receiver()
    exported = {"endpoint": receiver.endpoint, "spans": {"links_one_in": 1}, "metrics": {"interval": "1s"}}
    mesh = Mesh([kafka], ["traced"], tmp_path, {}, process={"otlp": exported})
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    consumer = Consumer(
        {
            "bootstrap.servers": mesh.bootstrap_servers,
            "group.id": "traced",
            "client.id": "traced-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["traced"])
    try:
        producer.produce("traced", b"x", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
        assert producer.flush(30) == 0

        def has_come() -> bool:
            return any(message.error() is None for message in consumer.consume(1, 0.5))

        eventually("the record", has_come, interval=0)
        consumer.commit(asynchronous=False)
        (span,) = eventually("its span", lambda: receiver.spans, timeout=30)
        found = {each.key: each.value for each in span.attributes}
        assert span.name == "deliver traced"
        assert found["messaging.client.id"].string_value == "traced-1"
        assert found["kafka_mesh.outcome"].string_value == "acknowledged"
        assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [(TRACE, SPAN)]
        assert [event.name for event in span.events] == ["produced", "acknowledged"]
        assert span.events[0].time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano

        def delivered() -> float:
            sums = [metric.sum for metric in receiver.metrics() if metric.name == "kafka_mesh_records_out_total"]
            return sum([float(point.as_double) for each in sums for point in each.data_points])

        eventually("the metrics", lambda: delivered() == 1, timeout=30)
    finally:
        consumer.close()
        mesh.stop()
        receiver.close()
