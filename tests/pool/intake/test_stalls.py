"""The mesh names a member that waits for records which upstream has and does not deliver."""

from __future__ import annotations

import pytest

from mesh.pool.inspection import why_nothing
from mesh.pool.intake.stalls import LOOK, STALLED
from tests.pool.harness import EU, Consumer, World, source

TOLD, OVER = "upstream partition stalled", "upstream partition resumed"


def wait(world: World, consumer: Consumer, seconds: float) -> None:
    """Its client fetches again and again."""
    until = world.now + seconds
    while world.now < until:
        consumer.heartbeat()
        consumer.fetch(wait=0.5)
        world.advance(0.5)
    consumer.fetch(wait=0.5)


def waiting(end: int = 5, assigned: bool = True) -> tuple[World, Consumer]:
    """The log of partition 0 grows to `end`."""
    world = World(assigned=assigned)
    consumer = world.consumer("a")
    consumer.fetch(wait=0.5)
    if assigned:
        world.assign_all()
    world.upstream(lambda pool: pool.intake.ends_known({source(0): end}))
    return world, consumer


def reason(world: World) -> str | None:
    (member,) = world.pool.members
    return why_nothing(world.pool, member, world.now)


def test_a_stall_is_reported_once_with_the_members_that_wait() -> None:
    world, consumer = waiting()
    wait(world, consumer, STALLED - 2 * LOOK)
    assert not world.reports(TOLD)
    assert reason(world) == "no backlog; records are on their way"
    wait(world, consumer, 10 * STALLED)
    (told,) = world.reports(TOLD)
    (member,) = world.pool.members
    assert told.level == "warning"
    assert told.fields["partition"] == str(source(0))
    assert (told.fields["received"], told.fields["end"], told.fields["standing"]) == (0, 5, "active")
    assert told.fields["members"] == [member.name]
    assert reason(world) == "no backlog; records upstream, but none arrive"


def test_it_is_told_when_it_is_over() -> None:
    world, consumer = waiting()
    wait(world, consumer, 2 * STALLED)
    world.produce(0, 5)
    wait(world, consumer, 2 * STALLED)
    assert (len(world.reports(TOLD)), len(world.reports(OVER))) == (1, 1)
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 9}))
    wait(world, consumer, 2 * STALLED)
    assert len(world.reports(TOLD)) == 2


def test_a_log_that_is_read_slowly_is_no_stall() -> None:
    world, consumer = waiting(end=1_000)
    for _ in range(20):
        wait(world, consumer, STALLED / 2)
        world.produce(0, 1)
    assert not world.reports(TOLD)


def test_an_assignment_that_does_not_come() -> None:
    world, consumer = waiting(assigned=False)
    wait(world, consumer, 2 * STALLED)
    assert {told.fields["partition"] for told in world.reports(TOLD)} == {str(source(index)) for index in range(4)}
    assert {told.fields["standing"] for told in world.reports(TOLD)} == {"absent"}


def test_a_rebalance_that_does_not_end() -> None:
    world, consumer = waiting(end=0)
    world.upstream(lambda pool: pool.intake.revoked([source(1)]))
    wait(world, consumer, 2 * STALLED)
    (told,) = world.reports(TOLD)
    assert (told.fields["partition"], told.fields["standing"]) == (str(source(1)), "suspended")


@pytest.mark.parametrize("end", [0, 5])
def test_a_member_that_does_not_ask_does_not_wait(end: int) -> None:
    world, _ = waiting(end)
    world.advance(10 * STALLED)
    assert not world.reports(TOLD)


def test_another_processs_partition_is_no_stall() -> None:
    world, consumer = waiting()
    world.upstream(lambda pool: pool.intake.assigned(EU, [], world.now))
    wait(world, consumer, 2 * STALLED)
    assert not world.reports(TOLD)


def test_a_cluster_that_is_down_is_told_elsewhere() -> None:
    world, consumer = waiting()
    world.upstream(lambda pool: pool.commits.cluster_down(EU))
    wait(world, consumer, 2 * STALLED)
    assert not world.reports(TOLD)


def test_what_cannot_be_opened_is_told_elsewhere_and_may_have_more() -> None:
    """A member must not take the records that it got for all that exist."""
    world = World(assigned=False)
    consumer = world.consumer("a")
    consumer.fetch(wait=0.5)
    world.upstream(lambda pool: pool.intake.unopened(EU, [source(0)]))
    world.assign(EU, indexes=[1])
    wait(world, consumer, 2 * STALLED)
    assert str(source(0)) not in {told.fields["partition"] for told in world.reports(TOLD)}
    partition = world.pool.partitions[source(0)]
    assert partition.has_more
    assert "partition cannot be opened" in (reason(world) or "")
    world.upstream(lambda pool: pool.intake.unopened(EU, []))
    assert not partition.has_more
