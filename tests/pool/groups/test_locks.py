"""Members that go on fetching and commit nothing, while others could have their records."""

from __future__ import annotations

import pytest

from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.leases import HolderId, LeaseId, LeaseRequest
from tests.pool.harness import ORDERS, Consumer, World, source

HOLD = 600.0
SETTINGS = PoolSettings(hold_timeout=HOLD, lock_timeout=60.0, redelivery=Redelivery(limit=5), maximum_window=10)
TOLD = "member without commits lost its records"


def begin(members: int = 2, settings: PoolSettings = SETTINGS) -> tuple[World, list[Consumer]]:
    """The first member got ten records, which it does not commit."""
    world = World(settings)
    consumers = [world.consumer(f"c{number}") for number in range(members)]
    world.produce(0, 10)
    consumers[0].fetch(partitions=[0], wait=0.0)
    for consumer in consumers[1:]:
        consumer.fetch(partitions=[1], wait=0.0)
    return world, consumers


def go_on(world: World, consumers: list[Consumer], seconds: float, partition: int = 0) -> None:
    """Their clients fetch, one request after the other, and send heartbeats."""
    until = world.now + seconds
    while world.now < until:
        for consumer in consumers:
            consumer.heartbeat()
            if not consumer.is_parked:
                consumer.fetch(partitions=[partition], wait=30.0)
        world.advance(min(20.0, until - world.now))
    world.check()


def held(world: World, consumer: Consumer) -> int:
    return world.pool.members.by_id[consumer.member_id].in_flight


def test_a_member_that_commits_nothing_loses_what_it_holds_to_others() -> None:
    world, (stuck, other) = begin()
    go_on(world, [stuck, other], HOLD - 120.0)
    assert held(world, stuck) == 10
    go_on(world, [stuck, other], 240.0)
    assert held(world, stuck) == 0
    assert sorted(value for _, _, value in other.received) == sorted(value for _, _, value in stuck.received[:10])
    assert len(world.reports(TOLD)) == 1
    counted = {each.count for each in world.pool.partitions[source(0)].ledger.counts}
    assert counted == {1}, "it may be what it hangs at"
    late = stuck.commit({0: stuck.received[9][1] + 1})
    assert late in world.answers
    assert not world.stored.get(source(0))


def test_a_member_that_commits_now_and_then_keeps_the_rest() -> None:
    world, (slow, other) = begin()
    for count in range(1, 9):
        go_on(world, [slow, other], HOLD - 120.0)
        slow.commit({0: slow.received[count - 1][1] + 1})
    assert held(world, slow) == 2
    assert not world.reports(TOLD)


def test_a_member_that_is_alone_keeps_what_it_holds() -> None:
    world, (only,) = begin(members=1)
    go_on(world, [only], 3 * HOLD)
    assert held(world, only) == 10
    other = world.consumer("other")
    go_on(world, [only, other], HOLD - 120.0)
    assert held(world, only) == 10, "somebody else has come only just now"
    go_on(world, [only, other], 240.0)
    assert held(world, only) == 0


def test_what_was_sent_a_moment_ago_is_not_taken() -> None:
    """A member may have had no records for a long time before."""
    world, (late, other) = begin()
    late.commit()
    go_on(world, [late, other], 2 * HOLD, partition=1)
    world.produce(1, 4)
    late.fetch(partitions=[1], wait=0.0)
    go_on(world, [late, other], HOLD - 120.0, partition=1)
    assert not world.reports(TOLD)


@pytest.mark.parametrize("is_leased", [False, True])
def test_holders_of_leases_are_others(is_leased: bool) -> None:
    world, (stuck,) = begin(members=1)
    world.produce(1, 10)

    def lease() -> None:
        request = LeaseRequest(
            id=LeaseId("lease"),
            holder=HolderId("spark"),
            topics=(ORDERS,),
            most=5,
            ttl=60.0,
            wait=0.0,
            completed=LeaseId("lease"),
        )
        if is_leased:
            world.upstream(lambda pool: pool.lease(world.ticket(), request, world.now))

    for _ in range(int(HOLD / 20) + 12):
        lease()
        go_on(world, [stuck], 20.0)
    assert bool(world.reports(TOLD)) is is_leased
