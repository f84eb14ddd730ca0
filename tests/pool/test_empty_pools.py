"""Pools that nobody joins, and members that a connection leaves behind: neither may stay."""

from __future__ import annotations

from mesh.pool.client import Client
from mesh.pool.effects import GroupId, LeaveUpstream, MemberId
from mesh.pool.membership import JoinRequest
from mesh.pool.results import JoinResult
from mesh.pool.settings import PoolSettings
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, World
from tests.pool.names import HOST


def test_a_pool_that_was_made_by_a_refused_join_ends() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    assert consumer.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.advance(5)
    assert not world.cluster.pools
    assert any(isinstance(effect, LeaveUpstream) for effect in world.effects)


def test_groups_that_are_refused_do_not_use_up_the_pools() -> None:
    world = World()
    consumer = world.consumer(joined=False)
    for number in range(150):
        request = JoinRequest(
            member_id=MemberId(""),
            instance_id=None,
            protocol_type="connect",
            protocols=(),
            session_timeout=45.0,
            rebalance_timeout=60.0,
            must_know_id=True,
            client=Client("c", HOST),
        )
        ticket = world.ticket()
        world.do(world.cluster.join(consumer.coordinator, ticket, GroupId(f"g{number}"), request, world.now))
        world.answer(ticket, JoinResult)
    world.advance(5)
    assert consumer.join().error is ErrorCode.NONE


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
    assert first not in world.pool.members
    assert consumer.member_id in world.cluster.pools[GROUP].members


def test_consumers_that_ask_where_they_stand_and_never_fetch_are_forgotten() -> None:
    settings = PoolSettings(lock_timeout=60.0)
    world = World(settings)
    asking = [world.consumer(f"c{number}", joined=False) for number in range(20)]
    for consumer in asking:
        consumer.reset()
    asking[0].fetch(wait=0.1)
    world.advance(settings.lock_timeout - 1)
    assert len(world.pool.groupless) == 20
    world.advance(1)
    assert len(world.pool.groupless) == 1
    world.check()


def test_a_commit_that_is_repeated_because_it_was_not_stored_waits_again() -> None:
    world = World(auto_store=False)
    consumer = world.consumer()
    world.produce(0)
    consumer.fetch()
    first = consumer.commit()
    world.advance(3)
    assert set(world.answer(first, object).errors.values()) >= {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}  # type: ignore[attr-defined]
    again = consumer.commit()
    assert again not in world.answers
    world.store()
    assert set(world.answer(again, object).errors.values()) == {ErrorCode.NONE}  # type: ignore[attr-defined]
