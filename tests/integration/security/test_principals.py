"""Two principals that may both read a topic: neither gets records by naming the other's offsets."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.integration.security.secured import Login, text_of

TOPIC: Final = "of-two-principals"
MECHANISM: Final = "SCRAM-SHA-256"
SECURITY: Final[dict[str, Any]] = {
    "sasl": {
        "mechanisms": [MECHANISM],
        "users": [{"name": "alice", "password": "sesam"}, {"name": "mallory", "password": "open"}],
    },
    "authorization": {
        "rules": [
            {"principals": ["User:*"], "topics": [TOPIC]},
            {"principals": ["User:alice"], "groups": ["shop"]},
            {"principals": ["User:mallory"], "groups": ["mine"]},
        ]
    },
}


def consumer(mesh: Mesh, name: str, password: str, group: str) -> Consumer:
    login = Login(MECHANISM, name=name, password=password)
    properties = {
        "bootstrap.servers": mesh.bootstrap_servers,
        "group.id": group,
        "client.id": "shop",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return Consumer({**CLIENT_PROPERTIES, **properties, **login.librdkafka()})


def feed(kafka: KafkaCluster, first: int, count: int) -> set[str]:
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": kafka.bootstrap_servers})
    values = {str(number) for number in range(first, first + count)}
    for value in sorted(values):
        producer.produce(TOPIC, value)
    assert producer.flush(20) == 0
    return values


def test_a_client_that_names_the_offsets_of_another_principal_gets_none_of_its_records(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    kafka.create_topic(TOPIC, 1)
    wanted = feed(kafka, 0, 100)
    mesh = Mesh([kafka], [TOPIC], tmp_path, {}, listener=SECURITY)
    alice, mallory = consumer(mesh, "alice", "sesam", "shop"), consumer(mesh, "mallory", "open", "mine")
    received: dict[str, int] = {}
    stolen: list[str] = []

    def has_all(seconds: float = 0.2) -> bool:
        """Both read for so long; returns true if alice has all records by then."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            received.update({text_of(each): each.offset() or 0 for each in alice.consume(100, 0.05)})
            stolen.extend(text_of(each) for each in mallory.consume(100, 0.05))
        return received.keys() >= wanted

    try:
        alice.subscribe([TOPIC])
        eventually("alice has what there is", has_all, timeout=40)
        offsets = received.values()
        # From the middle of what alice holds; and from her next offset.
        for offset in (sorted(offsets)[50], max(offsets) + 1):
            mallory.assign([TopicPartition(TOPIC, 0, offset)])
            wanted |= feed(kafka, len(wanted), 100)
            eventually("alice has all of it", has_all, timeout=20)
            has_all(2.0)  # less than strangers have to wait
        assert stolen == []
        assert mesh.metric("kafka_mesh_redelivered_records_total") == 0
    finally:
        alice.close()
        mallory.close()
        mesh.kill()
