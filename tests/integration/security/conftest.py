"""A topic whose records are numbers, and a certificate authority."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.security.certificates import Authority
from tests.integration.security.guarded import Guarded, guarded_broker

TOPIC = "secured"
COUNT = 60


def entries(mesh: Mesh, event: str) -> list[dict[str, Any]]:
    """Its log entries of this event so far."""
    return [entry for entry in mesh.log_entries() if entry["event"] == event]


def numbers() -> list[str]:
    """The records that a reader of the topic must have read."""
    return sorted(map(str, range(COUNT)))


@pytest.fixture(scope="session")
def topic(kafka: KafkaCluster) -> str:
    kafka.create_topic(TOPIC, 2)
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": kafka.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number))
    assert producer.flush(20) == 0
    return TOPIC


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as broker:
        yield broker
