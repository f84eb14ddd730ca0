"""The ends of logs in a backlog: all records that were stored before the request are below them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.leasing import Holder
from tests.integration.mesh_process import Mesh
from tests.upstream.harness import new_name

ROUNDS = 100


class Bed:
    """A topic of one partition, and a mesh in front of its broker. Each record has its own acknowledgement."""

    def __init__(self, kafka: KafkaCluster, folder: Path, engine: str) -> None:
        self._topic = new_name("ends")
        kafka.create_topic(self._topic, 1)
        self.mesh = Mesh([kafka], [self._topic], folder, {}, {kafka.name: {"engine": engine}})
        self._holder = Holder(self.mesh, new_name("leasing"), self._topic)
        self._producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})

    def store(self) -> None:
        self._producer.produce(self._topic, b"value")
        assert self._producer.flush(30) == 0

    def end(self) -> int:
        (partition,) = self._holder.ask("/leases/backlog", topics=[self._topic], wait=30.0)["partitions"]
        return int(partition["end"])


@pytest.fixture(params=["raw", "librdkafka"])
def bed(kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    bed = Bed(kafka, tmp_path, request.param)
    yield bed
    bed.mesh.stop()


def test_records_that_were_stored_before_the_request_are_below_the_end(bed: Bed) -> None:
    assert bed.end() == 0
    found = []
    for _ in range(ROUNDS):
        bed.store()
        found.append(bed.end())
    assert found == list(range(1, ROUNDS + 1))
