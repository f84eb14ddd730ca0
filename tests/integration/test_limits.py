"""Limits as an operator sets them: before and after a reload, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually

COUNT = 500


@pytest.mark.timeout(120)
def test_what_a_group_may_hold_changes_while_it_waits(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("limited", 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.num.messages": 10})
    for number in range(COUNT):
        producer.produce("limited", b"%d" % number)
    assert producer.flush(30) == 0
    mesh = Mesh([kafka], ["limited"], tmp_path, {"limits": [{"group": "l*", "in_flight": 100}]})
    properties = {"bootstrap.servers": mesh.bootstrap_servers, "group.id": "limited", "enable.auto.commit": False}
    consumer = Consumer({**properties, "auto.offset.reset": "earliest", "client.id": "waiting"})
    consumer.subscribe(["limited"])
    seen: set[bytes] = set()

    def take() -> None:
        for message in consumer.consume(100, 0.1):
            if message.error() is None:
                seen.add(message.value() or b"")

    def is_held_back() -> bool:
        take()
        pool = mesh.status()["virtual_clusters"][0]["pools"][0] if len(seen) >= 100 else {}
        return "held back by a limit" in str(pool)

    try:
        eventually("that it is held back", is_held_back, interval=0)
        assert 100 <= len(seen) < 120, "a batch that begins below is given whole"
        configuration = yaml.safe_load(mesh.file.read_text())
        configuration["virtual_clusters"][0]["target"]["pool"]["limits"] = []
        del configuration["admin"]
        assert "changed (target.pool.limits)" in mesh.reload(configuration)

        def has_all() -> bool:
            take()
            return len(seen) == COUNT

        eventually("all records", has_all, interval=0)
    finally:
        consumer.close()
        mesh.kill()
