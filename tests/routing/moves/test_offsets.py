"""Offsets of groups that the new cluster did not accept."""

from __future__ import annotations

from mesh.routing.moves.move import UnacceptedOffset
from mesh.routing.moves.offsets import committed, offset_of, unaccepted_of

CARRIED = {"group": {0: UnacceptedOffset(7, 3), 1: UnacceptedOffset(9, -1)}}


def test_it_is_the_groups_until_something_else_is_stored() -> None:
    assert offset_of(CARRIED, "group", 0, 3) == 7
    assert offset_of(CARRIED, "group", 1, -1) == 9


def test_what_was_committed_since_counts() -> None:
    assert offset_of(CARRIED, "group", 0, 8) == 8
    assert offset_of(CARRIED, "group", 1, 0) == 0


def test_others_are_what_their_cluster_says() -> None:
    assert offset_of(CARRIED, "group", 2, 5) == 5
    assert offset_of(CARRIED, "other", 0, 3) == 3


def test_nothing_is_carried_that_is_stored_already() -> None:
    assert unaccepted_of({0: 7, 1: 9, 2: 4}, {0: 3, 2: 4}) == CARRIED["group"]


def test_what_a_group_has_committed() -> None:
    partitions = [{"partition_index": 0, "committed_offset": 4}, {"partition_index": 1, "committed_offset": -1}]
    answer = {"topics": [{"name": "orders", "partitions": partitions}, {"name": "other", "partitions": partitions}]}
    assert committed(answer, "orders") == {0: 4}
