"""Actions of an operator on stuck records."""

from __future__ import annotations

import pytest

from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.interventions import Action, NotPossible, RunPlace
from mesh.records.decode import decode_records
from mesh.records.spans import Span
from tests.pool.harness import Consumer, World, source
from tests.pool.operating import intervene
from tests.pool.share_member import ShareMember


def begin(members: int = 1, limit: int | None = None, **more: object) -> tuple[World, list[Consumer]]:
    """Members that hold ten records of a partition together, the first member the lowest one; the others wait for
    more."""
    world = World(PoolSettings(initial_window=20, redelivery=Redelivery(limit=limit), **more))  # type: ignore[arg-type]
    consumers = [world.consumer(f"c{number}") for number in range(members)]
    consumers[0].fetch(wait=100.0)
    world.produce(0, 10)
    assert len(consumers[0].received) == 10
    for other in consumers[1:]:
        other.fetch(wait=1_000.0)
    return world, consumers


def carry_out(world: World, action: Action, first: int, last: int | None = None) -> list[RunPlace]:
    """Carries out an action. Raises NotPossible."""
    try:
        return intervene(world, action, 0, Span(first, first if last is None else last))
    finally:
        world.check()


def values_of(consumer: Consumer) -> list[bytes]:
    return [value for _, _, value in consumer.received]


def test_says_where_records_are() -> None:
    world, _ = begin()
    (place,) = world.pool.interventions.places(source(0), Span(2, 4))
    assert (place.span, place.state) == (Span(2, 4), "held")
    assert place.member
    world.produce(0, 5)
    assert [each.state for each in world.pool.interventions.places(source(0), Span(8, 12))] == ["held", "waiting"]


def test_a_record_is_settled_and_the_others_of_its_partition_go_to_another_member() -> None:
    world, (_, other) = begin(2)
    (place,) = carry_out(world, Action.SETTLE, 0)
    assert place.state == "held"
    assert world.stored[source(0)] == 1
    assert len(values_of(other)) == 9
    other.commit()
    world.check()
    assert world.stored[source(0)] == 10


def test_a_record_in_the_middle() -> None:
    world, (_, other) = begin(2)
    carry_out(world, Action.SETTLE, 4, 5)
    assert world.stored.get(source(0), 0) == 0
    while len(values_of(other)) < 8:
        other.fetch(wait=0.0)
    other.commit()
    world.check()
    assert world.stored[source(0)] == 10


def test_what_waits_is_settled_too() -> None:
    world, (member,) = begin()
    world.produce(0, 5)
    carry_out(world, Action.SETTLE, 10, 14)
    member.commit()
    world.check()
    assert world.stored[source(0)] == 15
    assert len(values_of(member)) == 10


def test_a_record_is_released_to_another_member() -> None:
    world, (_, other) = begin(2)
    carry_out(world, Action.RELEASE, 3)
    assert len(values_of(other)) == 10, "and all that stands in its way"


def test_a_member_that_is_alone_gets_it_again() -> None:
    world, (member,) = begin()
    member.fetch(wait=1_000.0)
    carry_out(world, Action.RELEASE, 0, 9)
    assert len(values_of(member)) == 20


def test_a_record_is_buried() -> None:
    world, _ = begin(2, limit=3)
    carry_out(world, Action.DEAD_LETTER, 0)
    (letter,) = world.dead_letters
    assert [record.offset for record in decode_records(letter.batch)] == [0]
    assert letter.history.member == "an operator"
    assert world.stored.get(source(0), 0) == 0, "not before it is written"
    world.write_dead_letter("")
    world.check()
    assert world.stored[source(0)] == 1


def test_what_has_no_bytes_here_is_read_again_and_buried() -> None:
    world, _ = begin(2, limit=3, replay_budget=0)
    carry_out(world, Action.DEAD_LETTER, 0)
    while world.pending_rereads:
        world.reread()
    assert [letter.batch.first for letter in world.dead_letters] == [0]


def test_what_a_share_member_has() -> None:
    world = World()
    member = ShareMember.joined(world)
    member.fetch(wait=0.0)
    world.assign_all()
    world.produce(0, 10)
    member.fetch()
    (place,) = carry_out(world, Action.SETTLE, 0)
    assert place.state == "held"
    assert world.stored[source(0)] == 1
    rest = world.pool.interventions.places(source(0), Span(0, 9))
    assert sum(len(each.span) for each in rest) == 9


@pytest.mark.parametrize(
    ("action", "first", "last", "reason"),
    [
        (Action.SETTLE, 10, 10, "has not been read yet: 10 is next"),
        (Action.DEAD_LETTER, 0, 0, "has no dead_letters"),
    ],
)
def test_says_why_not(action: Action, first: int, last: int, reason: str) -> None:
    world, _ = begin()
    with pytest.raises(NotPossible, match=reason):
        carry_out(world, action, first, last)


def test_what_is_settled_is_left_alone() -> None:
    world, (member,) = begin()
    member.commit()
    with pytest.raises(NotPossible, match="settled already"):
        carry_out(world, Action.SETTLE, 0)


def test_what_nobody_holds_is_not_released() -> None:
    world, _ = begin()
    world.produce(0, 5)
    with pytest.raises(NotPossible, match="no member holds"):
        carry_out(world, Action.RELEASE, 12)
