"""From what the group assigns to what is read: positions, starts, and requests that fail on the way."""

from __future__ import annotations

from typing import Literal

import pytest
from confluent_kafka import KafkaError, KafkaException

from mesh.records.spans import CommitPosition, TopicName
from mesh.upstream.assignment import SAME_FALL, Assignment
from mesh.upstream.engine import Assigned, EngineEvent, Lost, PositionReset, Revoked
from tests.upstream.fakes import FakeConsumer, place
from tests.upstream.harness import CLUSTER, source


class Bed:
    def __init__(self, start: Literal["earliest", "latest"] = "earliest", cooperative: bool = False) -> None:
        self.events: list[EngineEvent] = []
        self.fake = FakeConsumer()
        self.assignment = Assignment(CLUSTER, start, cooperative, self.events.append)

    def assign(self, *partitions: int) -> None:
        self.assignment.on_assign(self.fake.consumer, [place(each) for each in partitions])

    def revoke(self, *partitions: int) -> None:
        self.assignment.on_revoke(self.fake.consumer, [place(each) for each in partitions])

    def open(self) -> None:
        self.assignment.open(self.fake.consumer)

    def store(self, partition: int, offset: int, metadata: str = "") -> None:
        self.fake.stored[partition] = place(partition, offset, metadata)

    def last(self) -> dict[int, tuple[int, int, bool]]:
        """The last assignment that was told: start, committed offset, resumed."""
        event = self.events[-1]
        assert isinstance(event, Assigned)
        return {
            each.partition.partition: (each.start, each.committed.offset, each.resumed) for each in event.partitions
        }


def test_nothing_is_read_before_positions_are_known() -> None:
    bed = Bed()
    bed.store(0, 7, "text")
    bed.store(1, 8)
    bed.assign(0, 1)
    assert bed.fake.assignments == [{}]
    assert bed.events == []
    bed.open()
    assert bed.fake.assignments[-1] == {0: 7, 1: 8}
    assert bed.last() == {0: (7, 7, False), 1: (8, 8, False)}
    assert isinstance(bed.events[0], Assigned)
    assert bed.events[0].partitions[0].committed == CommitPosition(7, "text")
    assert bed.events[0].partitions[0].end == 100
    assert not bed.assignment.is_waiting
    bed.open()
    assert len(bed.events) == 1


def test_a_request_that_fails_is_made_again() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.assign(0)
    bed.fake.failures = [KafkaError(KafkaError._TIMED_OUT)]
    with pytest.raises(KafkaException):
        bed.open()
    assert (bed.events, bed.assignment.positions) == ([], {})
    bed.open()
    assert bed.last() == {0: (7, 7, False)}


@pytest.mark.parametrize(("start", "offset"), [("earliest", 10), ("latest", 90)])
def test_a_new_group_begins_and_commits_where(start: Literal["earliest", "latest"], offset: int) -> None:
    bed = Bed(start)
    bed.fake.begin, bed.fake.end = 10, 90
    bed.store(1, 55)
    bed.assign(0, 1)
    bed.fake.failures = []
    bed.open()
    assert bed.last() == {0: (offset, offset, False), 1: (55, 55, False)}
    assert [[(each.partition, each.offset) for each in commit] for commit in bed.fake.commits] == [[(0, offset)]]


def test_what_comes_straight_back_is_resumed_unless_somebody_went_further() -> None:
    bed = Bed()
    for partition in range(3):
        bed.store(partition, 10)
    bed.assign(0, 1, 2)
    bed.open()
    bed.assignment.positions.update({source("orders", partition): 50 for partition in range(3)})
    bed.revoke(0, 1, 2)
    assert isinstance(bed.events[-1], Revoked)
    assert bed.assignment.positions == {}
    bed.store(1, 60)
    bed.assign(0, 1)
    bed.open()
    assert bed.last() == {0: (50, 10, True), 1: (60, 60, False)}
    bed.revoke(0, 1)
    bed.assign(2)
    bed.open()
    assert bed.last() == {2: (10, 10, False)}  # it was with others for a whole generation


def test_positions_outlive_a_rebalance_that_follows_before_they_are_used() -> None:
    bed = Bed()
    bed.store(0, 10)
    bed.assign(0)
    bed.open()
    bed.assignment.positions[source("orders", 0)] = 50
    bed.revoke(0)
    bed.assign(0)
    bed.revoke(0)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (50, 10, True)}


def test_what_is_lost_is_forgotten() -> None:
    bed = Bed()
    bed.store(0, 10)
    bed.assign(0)
    bed.open()
    bed.assignment.positions[source("orders", 0)] = 50
    bed.assignment.on_lost(bed.fake.consumer, [place(0)])
    assert bed.events[-1] == Lost((source("orders", 0),))
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (10, 10, False)}


def test_what_an_eager_generation_left_out_is_not_taken_for_ours_later() -> None:
    """Generations follow each other before positions could be asked for."""
    bed = Bed()
    for partition in range(2):
        bed.store(partition, 10)
    bed.assign(0, 1)
    bed.open()
    bed.assignment.positions.update({source("orders", partition): 50 for partition in range(2)})
    bed.revoke(0, 1)
    bed.assign(0)
    bed.assign(0, 1)
    bed.open()
    assert bed.last() == {0: (50, 10, True), 1: (10, 10, False)}


def test_cooperative_members_tell_the_whole_each_time() -> None:
    bed = Bed(cooperative=True)
    for partition in range(3):
        bed.store(partition, 10)
    bed.assign(0, 1)
    bed.open()
    bed.assignment.positions[source("orders", 0)] = 50
    bed.revoke(1)
    assert bed.events[-1] == Revoked((source("orders", 1),))
    assert bed.fake.assignments[-1] == {0: 10}
    bed.assign(2)
    bed.open()
    assert bed.last() == {0: (50, 10, True), 2: (10, 10, False)}
    bed.assign()
    bed.open()
    assert bed.last() == {0: (50, 10, True), 2: (10, 10, True)}


def test_revoked_before_it_was_opened() -> None:
    bed = Bed(cooperative=True)
    bed.assign(0)
    bed.revoke(0)
    assert bed.fake.assignments[-1] == {}
    bed.assign()
    bed.open()
    assert bed.last() == {}


def test_an_empty_assignment_is_told() -> None:
    bed = Bed()
    bed.assign()
    bed.open()
    assert bed.last() == {}


def test_a_topic_made_anew_is_read_from_its_beginning() -> None:
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.assignment.begin_anew(bed.fake.consumer, TopicName("orders"), 0.0)
    reset = bed.events[-1]
    assert isinstance(reset, PositionReset)
    assert (reset.start, bed.fake.sought, bed.assignment.positions) == (0, {0: 0}, {source("orders", 0): 0})
    bed.assignment.begin_anew(bed.fake.consumer, TopicName("other"), 0.0)
    assert bed.events[-1] is reset


def test_a_partition_that_fell_back_by_itself_does_not_begin_anew_again_and_the_others_do() -> None:
    """The new log of one was shorter than its position, that of the other longer: only the topic's id tells of it."""
    bed = Bed()
    for partition in (0, 1):
        bed.store(partition, 50)
    bed.assign(0, 1)
    bed.open()
    bed.assignment.positions[source("orders", 0)] = 7
    bed.assignment.fell_back(source("orders", 0), now=100.0)
    bed.assignment.begin_anew(bed.fake.consumer, TopicName("orders"), now=100.0 + SAME_FALL - 1)
    assert bed.assignment.positions == {source("orders", 0): 7, source("orders", 1): 0}
    assert bed.fake.sought == {1: 0}
    bed.assignment.begin_anew(bed.fake.consumer, TopicName("orders"), now=100.0 + SAME_FALL)
    assert bed.fake.sought == {0: 0, 1: 0}, "another time"


def test_messages_that_got_lost_are_read_again() -> None:
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.assignment.rewind(bed.fake.consumer)
    assert bed.fake.sought == {0: 50}


def test_the_end_of_a_consumer() -> None:
    bed = Bed()
    bed.assignment.forget()
    assert bed.events == []
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.assignment.forget()
    assert bed.events[-1] == Lost((source("orders", 0),))
    assert not bed.assignment.is_waiting
