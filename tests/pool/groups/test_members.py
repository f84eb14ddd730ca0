"""Members join, lose their connections and leave; others get their records."""

from __future__ import annotations

import pytest

from mesh.pool.common.ids import MemberId
from mesh.pool.common.settings import PoolSettings
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, World, source, value_of


@pytest.mark.parametrize("how", ["leave", "session", "connection"])
def test_a_member_that_goes_loses_its_window_to_the_front_and_to_others(how: str) -> None:
    world = World()
    dead, alive = world.consumer("a"), world.consumer("b")
    world.assign_all()
    world.produce(0, 3)
    dead.fetch()
    world.produce(0, 3)
    match how:
        case "leave":
            dead.leave()
        case "session":
            for _ in range(2):
                world.advance(30.0)
                alive.heartbeat()
        case _:
            dead.disconnect()
            world.advance(3.0)
    alive.fetch()
    assert [value for _, _, value in alive.received] == [value_of(source(0), offset) for offset in range(6)]
    world.check()


def test_a_member_that_goes_gives_its_window_to_waiting_members_in_the_same_step() -> None:
    world = World()
    dead, alive = world.consumer("a"), world.consumer("b")
    world.assign_all()
    world.produce(0, 3)
    dead.fetch()
    alive.fetch(wait=30.0)
    dead.leave()
    assert [value for _, _, value in alive.received] == [value for _, _, value in dead.received] != []


def test_a_member_that_its_connections_left_for_another_one_expires() -> None:
    """The client lost its member id (UNKNOWN_MEMBER_ID) and joined again on the same connections."""
    world = World()
    consumer = world.consumer()
    first = consumer.member_id
    consumer.fetch(wait=0.1)
    world.advance(0.2)
    consumer.member_id = MemberId("")
    assert consumer.join().error is ErrorCode.NONE
    consumer.fetch(wait=0.1)
    world.advance(4)
    assert first not in world.pool.members.by_id
    assert consumer.member_id in world.cluster.pools[GROUP].members.by_id


def test_consumers_that_ask_where_they_stand_and_never_fetch_are_forgotten() -> None:
    settings = PoolSettings(lock_timeout=60.0)
    world = World(settings)
    asking = [world.consumer(f"c{number}", joined=False) for number in range(20)]
    for consumer in asking:
        consumer.reset()
    asking[0].fetch(wait=0.1)
    world.advance(settings.lock_timeout - 1)
    assert len(world.pool.members.groupless) == 20
    world.advance(1)
    assert len(world.pool.members.groupless) == 1
    world.check()


def test_one_that_joined_no_group_is_gone_some_seconds_after_its_connections() -> None:
    world = World(PoolSettings(fast_expiry=3.0))
    consumer, other = world.consumer(joined=False), world.consumer("b")
    consumer.reset()
    world.produce(0, 3)
    consumer.fetch()
    consumer.disconnect()
    other.fetch(wait=30.0)
    world.advance(2.9)
    assert not other.received
    world.advance(0.2)
    assert len(other.received) == 3
    assert not world.pool.members.groupless
