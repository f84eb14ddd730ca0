"""Pools without members do not stay."""

from __future__ import annotations

from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import LeaveUpstream
from mesh.pool.common.group_rules import GROUP_LESS, GroupRules
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import JoinResult
from mesh.pool.groups.membership import JoinRequest
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, Consumer, World
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
            client=ClientIdentity("c", HOST),
        )
        ticket = world.ticket()
        world.do(world.cluster.groups.join(consumer.coordinator, ticket, GroupId(f"g{number}"), request, world.now))
        world.answer(ticket, JoinResult)
    world.advance(5)
    assert consumer.join().error is ErrorCode.NONE


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


def filled(world: World) -> list[Consumer]:
    """Strangers that have joined as many groups as are allowed, and stay connected."""
    unidentified = [world.consumer(group=GroupId(f"g{number}")) for number in range(world.cluster.rules.maximum)]
    assert len(world.cluster.pools) == world.cluster.rules.maximum
    return unidentified


def beating(world: World, unidentified: list[Consumer], seconds: int) -> None:
    for _ in range(seconds // 5):
        world.advance(5)
        for each in unidentified:
            assert each.heartbeat() is ErrorCode.NONE


def test_groups_in_which_nobody_fetches_give_way_to_others() -> None:
    world = World(rules=GroupRules(maximum=3))
    unidentified = filled(world)
    consumer = world.consumer(joined=False)
    assert consumer.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED  # they have just joined
    beating(world, unidentified, 40)
    assert consumer.join().error is ErrorCode.NONE
    assert len(world.cluster.pools) == 3
    assert [each.heartbeat() for each in unidentified].count(ErrorCode.UNKNOWN_MEMBER_ID) == 1
    world.produce(0, 10)
    consumer.fetch()
    assert len(consumer.received) == 10


def test_a_group_that_waits_or_holds_something_does_not() -> None:
    world = World(rules=GroupRules(maximum=2, group_less=None))
    waiting, holding = world.consumer(group=GroupId("waiting")), world.consumer()
    world.produce(0, 10)
    holding.fetch()
    assert len(holding.received) == 10
    for _ in range(8):
        waiting.fetch(wait=10.0)
        world.advance(5)
        assert holding.heartbeat() is ErrorCode.NONE
    assert world.consumer("late", joined=False, group=GroupId("late")).join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(world.cluster.pools) == {"waiting", GROUP}


def test_positions_that_are_asked_for_fill_no_pools_for_ever() -> None:
    """A group that only OffsetFetch names: each makes a member that is about to fetch, and never does."""
    world = World(rules=GroupRules(maximum=3))
    for number in range(3):
        world.consumer(joined=False, group=GroupId(f"g{number}")).reset()
    world.advance(40)
    assert world.consumer(joined=False).join().error is ErrorCode.NONE


def test_the_group_of_those_without_one_finds_room_too() -> None:
    world = World(rules=GroupRules(maximum=3))
    unidentified = filled(world)
    beating(world, unidentified, 40)
    groupless = world.consumer("late", joined=False, positions={0: 0, 1: 0, 2: 0, 3: 0})
    groupless.fetch()
    assert GROUP_LESS in world.cluster.pools
