"""A static member that has come back joins again for partitions without an owner: once they are known, and not for
ever."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future

import pytest

from mesh.records.spans import TopicName
from mesh.upstream.groups.descriptions import DescriptionUnavailable, Partitions
from mesh.upstream.groups.unassigned_partitions import MAX_RETRY_DELAY, RETRY_DELAY, UnassignedPartitions
from mesh.wire.client.groups import GroupDescription
from tests.upstream.harness import CLUSTER, source

TOPIC = TopicName("orders")
LEFT = frozenset({("orders", 1)})


class Bed:
    """A group whose requests are answered when a test says so."""

    most_rejoins = 2

    def __init__(self, is_static: bool = True) -> None:
        self.asked: list[Future[Partitions]] = []
        self.now = 0.0
        self.coverage = UnassignedPartitions(CLUSTER, self, "group", is_static)
        self.coverage.begin()

    def describe(self, group: str) -> Future[GroupDescription]:
        raise AssertionError

    def unowned_partitions(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        assert (group, set(topics), ours) == ("group", {TOPIC}, frozenset({("orders", 0)}))
        self.asked.append(Future())
        return self.asked[-1]

    def look(self, later: float = 0.0) -> bool:
        self.now += later
        return self.coverage.check_for_rejoin({TOPIC}, {source("orders")}, self.now)

    def answered(self, left: Partitions | None) -> bool:
        """Returns true if it joins again. left: the partitions without a member; None: the request fails."""
        assert not self.look(MAX_RETRY_DELAY), "it asks"
        assert not self.look(), "and does not wait for the answer"
        if left is None:
            self.asked[-1].set_exception(DescriptionUnavailable("no"))
        else:
            self.asked[-1].set_result(left)
        return self.look()


def test_one_question_does_when_all_is_somebodys() -> None:
    bed = Bed()
    assert not bed.look(MAX_RETRY_DELAY)
    assert not bed.asked, "nothing is assigned yet"
    bed.coverage.assigned(bed.now)
    assert not bed.answered(frozenset())
    bed.coverage.assigned(bed.now)
    assert not bed.look(MAX_RETRY_DELAY)
    assert len(bed.asked) == 1


def test_for_what_is_nobodys_it_joins_again_and_looks_whether_that_helped() -> None:
    bed = Bed()
    bed.coverage.assigned(bed.now)
    assert bed.answered(LEFT)
    assert not bed.look(MAX_RETRY_DELAY)
    assert len(bed.asked) == 1, "first comes the next assignment"
    bed.coverage.assigned(bed.now)
    assert not bed.look(RETRY_DELAY / 2), "the leader has time to divide"
    assert len(bed.asked) == 1
    assert not bed.answered(frozenset())
    bed.coverage.assigned(bed.now)
    assert not bed.look(MAX_RETRY_DELAY)
    assert len(bed.asked) == 2


def test_a_leader_that_leaves_partitions_out_is_not_quarrelled_with() -> None:
    bed = Bed()
    for expected in (True, True, False):
        bed.coverage.assigned(bed.now)
        assert bed.answered(LEFT) is expected
    bed.coverage.assigned(bed.now)
    assert not bed.look(MAX_RETRY_DELAY)
    assert len(bed.asked) == 3


def test_what_is_not_known_is_asked_again_more_seldom_each_time() -> None:
    bed = Bed()
    bed.coverage.assigned(bed.now)
    for _ in range(3):
        assert not bed.answered(None)
    assert not bed.look(3 * RETRY_DELAY)
    assert len(bed.asked) == 3
    assert not bed.look(RETRY_DELAY)
    assert len(bed.asked) == 4


def test_an_answer_about_an_older_assignment_counts_no_more() -> None:
    bed = Bed()
    bed.coverage.assigned(bed.now)
    assert not bed.look()
    bed.asked[0].set_result(LEFT)
    bed.coverage.assigned(bed.now)
    assert not bed.answered(frozenset())


@pytest.mark.parametrize("is_static", [True, False])
def test_each_new_consumer_asks_if_it_is_static(is_static: bool) -> None:
    bed = Bed(is_static)
    for _ in range(2):
        bed.coverage.begin()
        bed.coverage.assigned(bed.now)
        bed.look()
    assert len(bed.asked) == (2 if is_static else 0)
