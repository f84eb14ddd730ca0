"""From the group's assignment to the read partitions: positions, starts, and requests that fail on the way."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Literal

import pytest
from confluent_kafka import KafkaError, KafkaException

from mesh.records.spans import CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.engine import Assigned, EngineEvent, Lost, PositionReset, Revoked, Start, Unopened
from mesh.upstream.librdkafka.commit_queue import Errors
from mesh.upstream.librdkafka.positions.assigned_positions import SAME_FALL, AssignedPositions
from mesh.upstream.librdkafka.positions.bounds import CONNECT_TIMEOUT, LogBounds
from mesh.upstream.librdkafka.positions.opening import MAX_RETRY_DELAY, RETRY
from mesh.upstream.problems import UpstreamProblem
from tests.upstream.fakes import FakeAdmin, FakeConsumer, place
from tests.upstream.harness import CLUSTER, source

NO_LEADER = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED


class Bed:
    """store: the group's answer to stored offsets is `refused`, or none while `is_slow`."""

    def __init__(self, start: Start = "earliest", cooperative: bool = False) -> None:
        self.events: list[EngineEvent] = []
        self.fake = FakeConsumer()
        self.admin = FakeAdmin()
        self.commits: list[dict[int, int]] = []
        self.refused: dict[int, int] = {}
        self.is_slow = False
        self.late: list[Callable[[], None]] = []
        self.assignment = AssignedPositions(
            CLUSTER,
            start,
            cooperative,
            self.events.append,
            lambda: LogBounds(self.admin.lazy, "read_committed"),
            self._store,
        )
        self.now = 100.0

    def _store(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        ours: Container[UpstreamPartition],
    ) -> None:
        self.commits.append({each.partition: position.offset for each, position in positions.items()})
        errors = {each: self.refused.get(each.partition, 0) for each in positions}
        self.late.append(lambda: answered(errors))
        if not self.is_slow:
            self.late.pop()()

    def assign(self, *partitions: int) -> None:
        self.assignment.on_assign(self.fake.consumer, [place(each) for each in partitions])

    def revoke(self, *partitions: int) -> None:
        self.assignment.on_revoke(self.fake.consumer, [place(each) for each in partitions])

    def open(self, later: float = 0.0) -> bool:
        self.now += later
        return self.assignment.open(self.fake.consumer, self.now)

    def recreated(self, topic: str = "orders", later: float = 0.0) -> None:
        self.now += later
        self.assignment.topic_recreated(TopicName(topic), self.now)
        self.renew()

    def renew(self, later: float = 0.0) -> None:
        self.now += later
        self.assignment.seek_recreated(self.fake.consumer, self.now)

    def resets(self) -> list[tuple[int, int]]:
        """Resets: partition and start."""
        return [(event.partition.partition, event.start) for event in self.events if isinstance(event, PositionReset)]

    def store(self, partition: int, offset: int, metadata: str = "") -> None:
        self.fake.stored[partition] = place(partition, offset, metadata)

    def last(self) -> dict[int, tuple[int, int, bool]]:
        """The last reported assignment: start, committed offset, resumed."""
        event = [event for event in self.events if isinstance(event, Assigned)][-1]
        return {
            each.partition.partition: (each.start, each.committed.offset, each.resumed) for each in event.partitions
        }

    def unopened(self) -> dict[int, tuple[UpstreamProblem, bool]]:
        """The last report of partitions that cannot be opened: the reason, and whether it lasts."""
        told = [event for event in self.events if isinstance(event, Unopened)]
        return {each.partition: (why.problem, why.lasts) for each, why in told[-1].partitions.items()} if told else {}


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
    assert not bed.assignment.is_opening
    bed.open(later=RETRY)
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
    assert bed.events == []
    bed.open(later=RETRY)
    assert bed.last() == {0: (7, 7, False)}


@pytest.mark.parametrize(("start", "offset"), [("earliest", 10), ("latest", 90)])
def test_a_new_group_begins_and_commits_where(start: Literal["earliest", "latest"], offset: int) -> None:
    bed = Bed(start)
    bed.admin.begins[0], bed.admin.ends[0] = 10, 90
    bed.store(1, 55)
    bed.assign(0, 1)
    bed.open()
    assert bed.last() == {0: (offset, offset, False), 1: (55, 55, False)}
    assert bed.commits == [{0: offset}]


@pytest.mark.parametrize(("found", "offset"), [(40, 40), (-1, 90)])
def test_a_new_group_begins_at_a_time_and_at_the_end_if_nothing_came_since(found: int, offset: int) -> None:
    bed = Bed(1_700_000_000_000)
    bed.admin.begins[0], bed.admin.ends[0] = found, 90
    bed.store(1, 55)
    bed.assign(0, 1)
    bed.open()
    assert bed.last() == {0: (offset, offset, False), 1: (55, 55, False)}
    assert bed.commits == [{0: offset}]
    assert ("begins", [0]) in bed.admin.asked


def test_a_time_that_nobody_answers_for_is_asked_for_again() -> None:
    bed = Bed(1_700_000_000_000)
    bed.admin.begins[0], bed.admin.ends[0] = NO_LEADER, 90
    bed.assign(0)
    bed.open()
    assert bed.commits == [], "the end is not where it begins"
    bed.admin.begins[0] = 40
    bed.open(later=MAX_RETRY_DELAY)
    assert bed.commits == [{0: 40}]


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
    assert bed.last() == {2: (10, 10, False)}  # another member had it for a whole generation


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


def test_a_log_that_went_back_is_resumed_though_more_of_it_is_committed() -> None:
    """The log was truncated, or its topic created again, and the group's commit is from before that."""
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    orders = source("orders", 0)
    bed.assignment.move(orders, 80)
    bed.assignment.move(orders, 0)
    bed.assignment.move(orders, 7)
    bed.revoke(0)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (7, 50, True)}
    bed.revoke(0)
    bed.store(0, 60)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (7, 60, True)}, "nothing of the new log is committed yet"
    bed.revoke(0)
    bed.store(0, 81)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (81, 81, False)}, "another member's"
    bed.assignment.move(orders, 90)
    bed.revoke(0)
    bed.store(0, 100)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (100, 100, False)}


def test_what_went_back_is_forgotten_with_what_is_lost() -> None:
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.assignment.move(source("orders", 0), 0)
    bed.assignment.on_lost(bed.fake.consumer, [place(0)])
    bed.store(0, 20)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (20, 20, False)}
    bed.assignment.move(source("orders", 0), 30)
    bed.revoke(0)
    bed.store(0, 40)
    bed.assign(0)
    bed.open()
    assert bed.last() == {0: (40, 40, False)}, "it was read to 30, and not to 50, since it came back"


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
    """Generations follow each other before the positions could be requested."""
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


def test_a_topic_created_again_is_read_from_its_beginning() -> None:
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.recreated()
    assert bed.resets() == [(0, 0)]
    assert (bed.fake.sought, bed.assignment.positions) == ({0: 0}, {source("orders", 0): 0})
    bed.recreated("other")
    bed.renew(later=60.0)
    assert len(bed.resets()) == 1


def test_a_partition_that_fell_back_by_itself_does_not_start_again_and_the_others_do() -> None:
    """The new log of one was shorter than its position, that of the other longer: only the topic's id shows it."""
    bed = Bed()
    for partition in (0, 1):
        bed.store(partition, 50)
    bed.assign(0, 1)
    bed.open()
    bed.assignment.positions[source("orders", 0)] = 7
    bed.assignment.fell_back(source("orders", 0), bed.now)
    bed.recreated(later=SAME_FALL - 1)
    assert bed.assignment.positions == {source("orders", 0): 7, source("orders", 1): 0}
    assert bed.fake.sought == {1: 0}
    bed.recreated(later=1)
    assert bed.fake.sought == {0: 0, 1: 0}, "another time"


def test_a_topic_created_again_is_not_forgotten_when_nobody_says_where_it_begins() -> None:
    """This covers the topic, those of its partitions that have leaders, and another topic that was created again at
    that time."""
    bed = Bed()
    for partition in range(3):
        bed.store(partition, 50)
    bed.assign(0, 1, 2)
    bed.open()
    bed.admin.begins[1] = NO_LEADER
    bed.assignment.topic_recreated(TopicName("other"), bed.now)
    bed.recreated()
    assert bed.resets() == [(0, 0), (2, 0)]
    bed.renew(later=RETRY)
    assert len(bed.resets()) == 2
    bed.admin.begins[1] = 3
    bed.renew(later=RETRY)
    bed.renew(later=RETRY)
    assert bed.resets()[2:] == [(1, 3)]


def test_what_is_to_start_again_does_so_after_a_rebalance_that_gives_it_back() -> None:
    """Another member had it meanwhile, and started again there."""
    bed = Bed()
    for partition in (0, 1):
        bed.store(partition, 50)
    bed.assign(0, 1)
    bed.open()
    bed.admin.begins[0] = bed.admin.begins[1] = NO_LEADER
    bed.recreated()
    bed.revoke(0, 1)
    bed.renew(later=RETRY)
    bed.store(1, 60)
    bed.assign(0, 1)
    bed.open()
    assert bed.last() == {0: (50, 50, True), 1: (60, 60, False)}
    bed.admin.begins[0] = bed.admin.begins[1] = 0
    bed.renew(later=RETRY)
    assert bed.resets() == [(0, 0)]


def test_what_fell_back_while_it_was_asked_where_it_begins_does_not_start_again() -> None:
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.admin.begins[0] = NO_LEADER
    bed.recreated()
    bed.assignment.fell_back(source("orders", 0), bed.now)
    bed.admin.begins[0] = 0
    bed.renew(later=RETRY)
    assert bed.resets() == []


def test_what_is_lost_does_not_start_again() -> None:
    bed = Bed()
    bed.store(0, 50)
    bed.assign(0)
    bed.open()
    bed.admin.begins[0] = NO_LEADER
    bed.recreated()
    bed.assignment.on_lost(bed.fake.consumer, [place(0)])
    bed.admin.begins[0] = 0
    bed.assign(0)
    bed.open()
    bed.renew(later=RETRY)
    assert bed.resets() == []


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
    assert not bed.assignment.is_opening


# Partitions that cannot be opened


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_partition_without_a_leader_is_left_out_and_opened_when_it_has_one(cooperative: bool) -> None:
    bed = Bed(cooperative=cooperative)
    bed.admin.begins[1] = bed.admin.ends[1] = NO_LEADER
    bed.store(2, 7)
    bed.assign(0, 1, 2)
    assert bed.open()
    assert bed.last() == {0: (0, 0, False), 2: (7, 7, False)}
    assert bed.unopened() == {1: (UpstreamProblem.UNREADABLE, False)}, "that may be over in a moment"
    bed.assignment.positions[source("orders", 0)] = 50
    assert not bed.open(later=RETRY)
    assert bed.unopened() == {1: (UpstreamProblem.UNREADABLE, True)}
    bed.admin.begins[1] = 3
    told = len(bed.events)
    assert bed.open(later=2 * RETRY)
    assert bed.last() == {0: (50, 0, True), 1: (3, 3, False), 2: (7, 7, True)}
    assert bed.fake.assignments[-1] == {0: 0 if cooperative else 50, 1: 3, 2: 7}
    assert bed.unopened() == {}
    assert bed.commits == [{0: 0}, {1: 3}]
    assert len(bed.events) == told + 2
    assert not bed.open(later=60.0)


def test_what_is_known_does_not_wait_for_the_end_of_a_log_that_has_no_leader() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.admin.ends[0] = NO_LEADER
    bed.assign(0)
    assert bed.open()
    assert bed.last() == {0: (7, 7, False)}
    assert bed.unopened() == {}


def test_the_coordinator_is_asked_once_for_what_has_no_leader_and_the_leaders_less_and_less() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.admin.begins[1] = NO_LEADER
    bed.assign(0, 1)
    for _ in range(100):
        bed.open(later=0.5)
    assert bed.fake.asked == [[0, 1]]
    tries = sum(which == "begins" for which, _ in bed.admin.asked)
    assert 50 / MAX_RETRY_DELAY <= tries <= 50 / MAX_RETRY_DELAY + 3
    assert len([event for event in bed.events if isinstance(event, Unopened)]) == 2, "not each time"


def test_a_topic_that_the_group_may_not_read_is_named_at_once() -> None:
    """The group may describe it: the coordinator returns the committed offsets, and stores none."""
    bed = Bed()
    bed.refused[1] = FORBIDDEN
    bed.assign(0, 1)
    assert bed.open()
    assert bed.last() == {0: (0, 0, False)}
    assert bed.unopened() == {1: (UpstreamProblem.NOT_AUTHORIZED, True)}
    bed.refused.clear()
    bed.open(later=RETRY)
    assert bed.last() == {0: (0, 0, True), 1: (0, 0, False)}


def test_a_topic_of_which_the_coordinator_says_nothing_is_asked_for_again() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.store(1, 8)
    bed.fake.unsaid[1] = KafkaError(FORBIDDEN)
    bed.assign(0, 1)
    assert bed.open()
    assert (bed.last(), bed.unopened()) == ({0: (7, 7, False)}, {1: (UpstreamProblem.NOT_AUTHORIZED, True)})
    bed.fake.unsaid.clear()
    assert bed.open(later=RETRY)
    assert bed.last() == {0: (7, 7, True), 1: (8, 8, False)}
    assert bed.commits == []


def test_what_the_coordinator_says_of_the_group_is_no_partitions_own() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.fake.unsaid[1] = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    bed.assign(0, 1)
    with pytest.raises(KafkaException):
        bed.open()
    assert bed.events == []


def test_a_group_that_starts_at_the_end_starts_once() -> None:
    """At the position when it was refused, not at the one when it is allowed."""
    bed = Bed("latest")
    bed.refused[0] = FORBIDDEN
    bed.assign(0)
    bed.open()
    bed.admin.ends[0] = 500
    bed.refused.clear()
    bed.open(later=RETRY)
    assert bed.last() == {0: (100, 100, False)}


def test_a_group_that_starts_at_the_end_of_another_log_by_now_starts_there() -> None:
    bed = Bed("latest")
    bed.refused[0] = FORBIDDEN
    bed.assign(0)
    bed.open()
    bed.admin.ends[0] = 5
    bed.refused.clear()
    bed.recreated()
    bed.open(later=RETRY)
    assert bed.last() == {0: (5, 5, False)}


def test_a_rebalance_asks_again() -> None:
    """A request before the rebalance whose answer comes after it is useless: another member may have had the
    partition."""
    bed = Bed()
    bed.is_slow = True
    bed.assign(0, 1)
    bed.open()
    (answer,) = bed.late
    bed.revoke()
    bed.store(0, 40)
    bed.assign(0)
    answer()
    bed.open()
    assert bed.last() == {0: (40, 40, False)}
    assert len(bed.commits) == 1


def test_what_is_taken_away_is_not_opened() -> None:
    bed = Bed(cooperative=True)
    bed.admin.begins[1] = NO_LEADER
    bed.assign(0, 1)
    bed.open()
    bed.open(later=RETRY)
    bed.revoke(1)
    assert bed.unopened() == {}
    bed.admin.begins[1] = 0
    assert not bed.open(later=60.0)
    assert set(bed.assignment.positions) == {source("orders", 0)}


def test_it_goes_without_saying_when_membership_is_lost() -> None:
    bed = Bed()
    bed.admin.begins[1] = NO_LEADER
    bed.assign(0, 1)
    bed.open()
    assert set(bed.assignment.assigned) == {source("orders", 0), source("orders", 1)}
    bed.assignment.on_lost(bed.fake.consumer, [])
    assert bed.unopened() == {}
    assert set(bed.assignment.assigned) == set()
    assert not bed.open(later=60.0)


def test_a_leader_that_hangs_delays_what_is_known_and_does_not_stop_it() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.admin.ends[0] = None
    bed.assign(0)
    assert not bed.open()
    assert bed.assignment.is_opening
    bed.admin.ends[0] = KafkaError(KafkaError._TIMED_OUT)
    bed.admin.answer()
    assert bed.open()
    assert bed.last() == {0: (7, 7, False)}


def test_leaders_that_cannot_be_asked_at_all_are_not_waited_for() -> None:
    bed = Bed()
    bed.store(0, 7)
    bed.admin.connected = False
    bed.assign(0, 1)
    assert not bed.open()
    assert bed.open(later=CONNECT_TIMEOUT)
    assert (bed.last(), bed.unopened()) == ({0: (7, 7, False)}, {1: (UpstreamProblem.UNREADABLE, False)})
