"""A lease of a Spark query whose partitions move to another process of the mesh meanwhile; on a real broker."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from pyspark_kafka_mesh.client import Client, MeshUnavailable
from pyspark_kafka_mesh.offsets import Offset
from pyspark_kafka_mesh.options import Options
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.upstream.harness import new_name, produce

PARTITIONS, RECORDS = 4, 400


class Bed:
    """A topic with so many records, and two processes in front of its broker."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.kafka = kafka
        self.topic, self.group = new_name("two-processes"), new_name("leasing")
        kafka.create_topic(self.topic, PARTITIONS)
        self.meshes: list[Mesh] = []
        for name in ("one", "two"):
            self.meshes.append(Mesh([kafka], [self.topic], folder, {}, name=name, process={}))

    def client(self, *meshes: Mesh, timeout: float = 60.0) -> Client:
        urls = tuple(mesh.admin_url for mesh in meshes)
        return Client(Options(urls, "tested", (self.topic,), self.group, timeout=timeout))

    def feed(self) -> None:
        for partition in range(PARTITIONS):
            produce(self.kafka.bootstrap_servers, self.topic, RECORDS // PARTITIONS, partition=partition)

    def member_of(self, mesh: Mesh) -> Consumer:
        consumer = Consumer(
            {"bootstrap.servers": mesh.bootstrap_servers, "group.id": self.group, "enable.auto.commit": False}
        )
        consumer.subscribe([self.topic])
        return consumer

    @property
    def committed(self) -> int:
        return sum(self.kafka.committed(self.group).values())


@pytest.fixture
def bed(kafka: KafkaCluster, tmp_path: Path) -> Iterator[Bed]:
    bed = Bed(kafka, tmp_path)
    yield bed
    for mesh in bed.meshes:
        mesh.kill()


def leases_of(mesh: Mesh) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{mesh.admin_url}/leases", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["leases"]
    return found


def leased(client: Client, start: Offset) -> Offset:
    """Leases all available records."""

    def all_of_it() -> Offset | None:
        offset = client.lease(start, None)
        return offset if sum(map(len, offset.ranges)) == RECORDS else None

    return eventually("all records can be leased", all_of_it, timeout=60)


@pytest.mark.long
def test_what_moves_with_its_partitions_is_renewed_and_acknowledged_where_it_is(bed: Bed) -> None:
    one, two = bed.meshes
    bed.feed()
    both = bed.client(one, two)
    offset = leased(both, Offset("job"))
    member = bed.member_of(two)
    try:

        def has_moved() -> bool:
            member.poll(0.1)
            return bool(leases_of(two)) and bool(leases_of(one))

        eventually("the other process holds some of the lease", has_moved, timeout=60)
        (before,) = leases_of(two)
        both.renew(offset)
        (after,) = leases_of(two)
        assert after["lease"] == before["lease"] == offset.lease
        assert after["deadline"] > before["deadline"]
        with pytest.raises(MeshUnavailable, match="if the mesh has more processes, name their admin addresses"):
            bed.client(one, timeout=0.0).acknowledge(offset)
        both.acknowledge(offset)
        assert bed.committed == RECORDS
    finally:
        member.close()

    one.kill()
    bed.feed()
    again = leased(both, offset)
    both.acknowledge(again)
    assert bed.committed == 2 * RECORDS
