"""A lease covers only the records that it was granted, and no later records with the same offsets; on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.integration.kafka import KafkaCluster
from tests.integration.leasing import Holder, spans
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.upstream.harness import new_name, produce

BEFORE, AFTER = 1_000, 50
ANEW = "upstream partition reset"


class Bed:
    """A topic of one partition with so many records, and a mesh in front of its broker."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.kafka = kafka
        self.topic, self.group = new_name("made-anew"), new_name("leasing")
        kafka.create_topic(self.topic, 1)
        produce(kafka.bootstrap_servers, self.topic, BEFORE)
        self.mesh = Mesh([kafka], [self.topic], folder, {})
        self.holder = Holder(self.mesh, self.group, self.topic)

    def make_anew(self) -> None:
        """Creates the topic again under its name, with other records."""
        self.kafka.delete_topic(self.topic)
        self.kafka.create_topic(self.topic, 1)
        produce(self.kafka.bootstrap_servers, self.topic, AFTER)

    @property
    def began_anew(self) -> int:
        return sum(each["event"] == ANEW for each in self.mesh.log_entries())

    def records_of_a_member(self) -> list[bytes | None]:
        """Polls until the member has the new records; it commits what it gets."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.mesh.bootstrap_servers,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([self.topic])
        values: list[bytes | None] = []

        def has_them() -> bool:
            values.extend(message.value() for message in consumer.consume(AFTER, 0.2) if message.error() is None)
            return len(values) >= AFTER

        try:
            eventually("a member has the new records", has_them, timeout=60)
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values


@pytest.fixture
def bed(kafka: KafkaCluster, tmp_path: Path) -> Iterator[Bed]:
    bed = Bed(kafka, tmp_path)
    yield bed
    bed.mesh.kill()


def test_what_was_leased_of_a_topic_that_was_created_again_is_lost_and_members_have_the_new_records(bed: Bed) -> None:
    lease = bed.holder.lease(BEFORE)
    assert spans(lease["ranges"]) == [(0, 0, BEFORE - 1)]
    bed.make_anew()
    eventually("the mesh notices", lambda: bed.began_anew, timeout=60)
    answer = bed.holder.settled("acknowledge", lease)
    assert answer == {"done": [], "lost": lease["ranges"], "absent": []}
    assert bed.kafka.committed(bed.group).get((bed.topic, 0), 0) == 0
    assert bed.records_of_a_member() == [b"%d" % number for number in range(AFTER)]
    assert bed.kafka.committed(bed.group) == {(bed.topic, 0): AFTER}


def test_a_lease_of_before_the_mesh_was_killed_is_lost_if_its_topic_is_another_one_by_now(bed: Bed) -> None:
    lease = bed.holder.lease(BEFORE)
    assert lease["ranges"][0]["topic_id"]
    bed.mesh.kill()
    bed.make_anew()
    bed.mesh.restart()
    for verb in ("claim", "acknowledge"):
        assert bed.holder.settled(verb, lease) == {"done": [], "lost": lease["ranges"], "absent": []}
    assert bed.records_of_a_member() == [b"%d" % number for number in range(AFTER)]
    assert bed.kafka.committed(bed.group) == {(bed.topic, 0): AFTER}
