"""The results of a poll become events; offsets that fall back are never taken for a repetition."""

from __future__ import annotations

from confluent_kafka import KafkaError

from mesh.records.spans import TopicName, UpstreamPartition
from mesh.upstream.engine import Assigned, EndReached, EngineEvent, EventBatch, PositionReset, Received, Truncated
from mesh.upstream.librdkafka.message_reader import MessageReader
from mesh.upstream.librdkafka.positions.assigned_positions import AssignedPositions
from mesh.upstream.librdkafka.positions.bounds import LogBounds
from tests.upstream.fakes import FakeAdmin, FakeConsumer, message, place
from tests.upstream.harness import CLUSTER, one_by_one, source

END = KafkaError(KafkaError._PARTITION_EOF)


class Bed:
    def __init__(self, **positions: int) -> None:
        self.events: list[EngineEvent] = []
        self.complaints: list[tuple[int, TopicName]] = []
        self.fallen: list[UpstreamPartition] = []
        self.fake = FakeConsumer()
        admin = FakeAdmin().lazy
        self.assignment = AssignedPositions(
            CLUSTER, "earliest", False, self.events.append, lambda: LogBounds(admin, "read_committed"), lambda *_: None
        )
        self.assignment.positions = {source("orders", int(name[1:])): at for name, at in positions.items()}
        self.allowed: list[TopicName] = []
        self.intake = MessageReader(
            CLUSTER, self.assignment, self.events.append, self._complain, self.allowed.append, self.fallen.append
        )

    def _complain(self, error: KafkaError, topic: TopicName) -> None:
        self.complaints.append((error.code(), topic))

    def told(self) -> list[tuple[str, int, list[tuple[int, int]] | int]]:
        """The kind and the partition of events, and the offsets: spans of batches, or the one offset."""
        told: list[tuple[str, int, list[tuple[int, int]] | int]] = []
        for event in [each for several in self.events for each in one_by_one(several)]:
            match event:
                case Received(partition, batches):
                    told.append(("records", partition.partition, [(batch.first, batch.last) for batch in batches]))
                case EndReached(partition, offset):
                    told.append(("end", partition.partition, offset))
                case PositionReset(partition, start, _):
                    told.append(("reset", partition.partition, start))
                case Truncated(partition, offset):
                    told.append(("cut", partition.partition, offset))
        return told


def test_partitions_that_alternate() -> None:
    bed = Bed(p0=10, p1=20)
    pairs = [(10, 0), (20, 1), (11, 0), (21, 1), (23, 1)]
    bed.intake.take([message(offset, place=("orders", partition)) for offset, partition in pairs])
    assert bed.told() == [("records", 0, [(10, 11)]), ("records", 1, [(20, 23)])]
    assert bed.assignment.positions == {source("orders", 0): 12, source("orders", 1): 24}


def test_what_a_poll_brings_is_told_together() -> None:
    bed = Bed(p0=0, p1=0)
    bed.intake.take([message(0), message(0, place=("orders", 1)), message(1, problem=END)])
    (event,) = bed.events
    assert isinstance(event, EventBatch)
    assert len(event.events) == 3


def test_what_came_before_offsets_fell_back_is_told_before_that() -> None:
    bed = Bed(p0=5)
    bed.intake.take([message(5), message(6), message(2)])
    assert [type(event) for event in bed.events] == [EventBatch, Truncated, EventBatch]
    assert bed.told() == [("records", 0, [(5, 6)]), ("cut", 0, 2), ("records", 0, [(2, 2)])]


def test_an_end_comes_behind_its_records() -> None:
    bed = Bed(p0=0)
    bed.intake.take([message(0), message(1), message(5, problem=END), message(5)])
    assert bed.told() == [("records", 0, [(0, 1)]), ("end", 0, 5), ("records", 0, [(5, 5)])]


def test_what_is_not_ours_is_left_out() -> None:
    bed = Bed(p1=0)
    bed.intake.take([message(0), message(1, problem=END)])
    assert bed.told() == []


def test_complaints() -> None:
    bed = Bed(p0=0)
    bed.intake.take([message(0), message(-1, problem=KafkaError(29), place=("other", -1)), message(1)])
    assert bed.complaints == [(29, "other")]
    assert bed.allowed == ["orders"]
    assert bed.told() == [("records", 0, [(0, 1)])]


def test_a_lower_offset() -> None:
    bed = Bed(p0=500)
    bed.intake.take([message(3), message(4)])
    assert bed.told() == [("cut", 0, 3), ("records", 0, [(3, 4)])], "what lies below is there still, or never was"
    assert bed.fallen == [], "if it is another topic, its id has to tell"


def test_a_lower_offset_is_resumed_though_more_is_committed() -> None:
    """The group's higher commit is from the log before, and not another member's."""
    bed = Bed(p0=500)
    bed.intake.take([message(3), message(4)])
    bed.fake.stored[0] = place(0, 400)
    bed.assignment.on_revoke(bed.fake.consumer, [place(0)])
    bed.assignment.on_assign(bed.fake.consumer, [place(0)])
    bed.assignment.open(bed.fake.consumer, 1.0)
    (assigned,) = [event for event in bed.events if isinstance(event, Assigned)]
    assert [(each.start, each.resumed) for each in assigned.partitions] == [(5, True)]


def test_a_lower_offset_behind_higher_ones() -> None:
    bed = Bed(p0=500)
    bed.intake.take([message(500), message(501), message(0), message(400)])
    assert bed.told() == [("records", 0, [(500, 501)]), ("reset", 0, 0), ("records", 0, [(0, 400)])]
    assert bed.fallen == [source("orders", 0)]


def test_a_lower_end() -> None:
    bed = Bed(p0=500)
    bed.intake.take([message(0, problem=END)])
    assert bed.told() == [("reset", 0, 0), ("end", 0, 0)]
    assert bed.assignment.positions == {source("orders", 0): 0}


def test_an_end_that_lies_below_what_was_read() -> None:
    """An unclean election: librdkafka goes back to the point of divergence, and reports the end there."""
    bed = Bed(p0=1_500)
    bed.intake.take([message(500, problem=END)])
    assert bed.told() == [("cut", 0, 500), ("end", 0, 500)]
    assert bed.fallen == []
