"""The leaders that answers name."""

from __future__ import annotations

from uuid import UUID

from mesh.routing.one_node.leaders import ClusterLeaders
from mesh.wire.trees import Tree

ID, OTHER = UUID(int=1), UUID(int=2)


def metadata(name: str, *leaders: tuple[int, int], id: UUID = ID) -> Tree:
    partitions = [
        {"partition_index": index, "leader_id": leader, "leader_epoch": epoch, "error_code": 0}
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return {"controller_id": 9, "topics": [{"name": name, "topic_id": id, "error_code": 0, "partitions": partitions}]}


def test_leaders_are_known_by_name_and_by_id() -> None:
    known = ClusterLeaders()
    known.take(metadata("orders", (1, 0), (-1, 3)))
    assert [known.leader("orders", each) for each in range(3)] == [1, -1, None]
    assert (known.leader(ID, 0), known.leader(OTHER, 0), known.controller) == (1, None, 9)


def test_a_broker_that_is_behind_changes_nothing() -> None:
    known = ClusterLeaders()
    known.take(metadata("orders", (1, 5)))
    known.take(metadata("orders", (2, 4)))
    assert known.leader("orders", 0) == 1
    known.moved(ID, 0, 3, 6)
    assert known.leader("orders", 0) == 3


def test_a_topic_that_was_created_again_starts_again() -> None:
    known = ClusterLeaders()
    known.take(metadata("orders", (1, 5), (1, 5)))
    known.take(metadata("orders", (2, 0), id=OTHER))
    assert (known.leader("orders", 0), known.leader("orders", 1), known.leader(ID, 0)) == (2, None, None)
    assert len(known) == 1


def test_what_is_remembered_is_bounded() -> None:
    known = ClusterLeaders(most=3)
    for number in range(5):
        known.take(metadata(f"topic-{number}", (1, 0), (1, 0), id=UUID(int=number + 1)))
    assert len(known) == 2
    assert known.leader("topic-4", 1) == 1
