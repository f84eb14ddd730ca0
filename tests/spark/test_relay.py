"""Spark's own Kafka source and sink through a relay that is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.integration.relay_mesh import RelayMesh

pytest.importorskip("pyspark", reason="Spark is an extra: pip install 'kafka-mesh[spark]'")

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
PARTITIONS, COUNT = 3, 12_000


def test_each_record_once(kafka: KafkaCluster, tmp_path: Path) -> None:
    """To files, as Spark promises, and to Kafka, as long as no task is repeated."""
    read, written = "spark-reads", "spark-writes"
    for topic in (read, written):
        kafka.create_topic(topic, PARTITIONS)
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": kafka.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(read, f"record-{number}|", partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0
    relay = RelayMesh(tmp_path, kafka.bootstrap_servers)
    arguments = (relay.bootstrap_servers, read, written, str(tmp_path), str(COUNT))
    command = [sys.executable, "-m", "tests.spark.copying", *arguments]
    copying = ChildProcess(command, log=tmp_path / "copying.log")
    try:
        for part in (1, 2, 3):

            def is_written(part: int = part) -> bool:
                assert copying.exit_code is None, copying.log_tail()
                return sum(log_ends(kafka, written).values()) >= part * COUNT // 4

            eventually(f"{part} quarters are written", is_written, timeout=120, interval=0.2)
            relay.kill()
            relay.restart()
        code = copying.wait(120)
        assert code == 0, copying.log_tail()
    finally:
        copying.kill()
        relay.kill()
    told = json.loads((tmp_path / "told.json").read_text())
    expected = sorted(f"record-{number}" for number in range(COUNT))
    assert sorted(value.rstrip("|") for value in told["values"]) == expected
    ids = [each.record.id for each in stored_upstream(kafka, written)]
    assert sorted(set(ids)) == expected
    assert len(ids) == COUNT or told["restarts"]
