"""Pools that stop: what members see, what is stored, and which records are released."""

from __future__ import annotations

from mesh.pool.common.effects import ConsumeUpstream, LeaveUpstream, SubscribeUpstream
from mesh.pool.common.settings import PoolSettings
from mesh.pool.intake.drain import DrainState
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, GROUP, Consumer, World, source

GRACE = 6.0


def begin(auto_store: bool = True, count: int = 10) -> tuple[World, Consumer]:
    """A member that holds some records, with more in the backlog."""
    world = World(PoolSettings(linger=1_000.0), auto_store=auto_store)
    consumer, other = world.consumer(), world.consumer("other")
    other.positions.clear()
    world.produce(0, count)
    consumer.fetch(partitions=[0], wait=0.0)
    world.produce(0, count)
    return world, consumer


def drain(world: World) -> None:
    world.do(world.cluster.drain_pool(GROUP, GRACE, world.now))


def left(world: World) -> list[LeaveUpstream]:
    return [effect for effect in world.effects if isinstance(effect, LeaveUpstream)]


def errors(world: World, ticket: object) -> set[ErrorCode]:
    return set(world.answers[ticket].errors.values())  # type: ignore[attr-defined]


def test_nothing_is_given_any_more_and_what_is_held_can_be_committed() -> None:
    world, consumer = begin()
    drain(world)
    consumer.fetch(partitions=[0], wait=0.5)
    world.advance(1.0)
    assert len(consumer.received) == 10
    assert world.cluster.drain_state(GROUP) == (DrainState.DRAINING, 10)
    assert not left(world)
    assert ConsumeUpstream(GROUP, EU, False) in world.effects
    ticket = consumer.commit({0: consumer.positions[0]})
    assert errors(world, ticket) == {ErrorCode.NONE}
    assert world.stored == {source(0): 10}
    assert world.cluster.drain_state(GROUP) == (DrainState.DRAINED, 0)
    assert len(left(world)) == 1
    world.check()


def test_it_waits_until_a_commit_is_stored() -> None:
    world, consumer = begin(auto_store=False)
    drain(world)
    ticket = consumer.commit({0: consumer.positions[0]})
    assert not left(world)
    world.store()
    assert errors(world, ticket) == {ErrorCode.NONE}
    assert len(left(world)) == 1


def test_what_is_held_when_the_time_is_over_is_released_and_reported() -> None:
    world, consumer = begin()
    consumer.commit({0: consumer.positions[0] - 4})
    drain(world)
    world.advance(GRACE)
    assert world.cluster.drain_state(GROUP) == (DrainState.DRAINED, 0)
    assert world.stored == {source(0): 6}
    (report,) = world.reports("pool drained")
    assert (report.level, report.fields["in_flight"]) == ("warning", 4)
    late = consumer.commit({0: consumer.positions[0]})
    assert errors(world, late) == {ErrorCode.REBALANCE_IN_PROGRESS}
    world.check()


def test_members_stay_and_go_on_when_it_is_cancelled() -> None:
    world, consumer = begin()
    drain(world)
    consumer.commit({0: consumer.positions[0]})
    assert consumer.heartbeat() is ErrorCode.NONE
    consumer.fetch(partitions=[0], wait=100.0)
    before = len(world.effects)
    world.do(world.cluster.serve_again(GROUP, world.now))
    assert any(isinstance(effect, SubscribeUpstream) for effect in world.effects[before:])
    world.assign(EU)
    world.produce(0)
    assert len(consumer.received) == 20
    world.check()


def test_one_that_is_cancelled_before_it_left_goes_on_at_once() -> None:
    world, consumer = begin()
    drain(world)
    consumer.fetch(partitions=[0], wait=100.0)
    world.do(world.cluster.serve_again(GROUP, world.now))
    assert len(consumer.received) == 20
    assert world.cluster.drain_state(GROUP) == (DrainState.SERVING, 20)
    assert EU not in world.upstreams[GROUP].idle
    world.advance(GRACE)
    assert not left(world)
    world.check()


def test_a_group_that_is_drained_gets_nothing_here_when_its_members_come_back() -> None:
    world, consumer = begin()
    drain(world)
    consumer.commit({0: consumer.positions[0]})
    for each in list(world.pool.members.by_id.values()):
        for connection in list(each.connections):
            world.disconnect(connection)
    world.advance(2_000.0)
    assert GROUP not in world.cluster.pools
    before = len(world.effects)
    again = world.consumer("again")
    again.fetch(partitions=[0], wait=100.0)
    assert world.cluster.drain_state(GROUP) == (DrainState.DRAINED, 0)
    assert not any(isinstance(effect, SubscribeUpstream) for effect in world.effects[before:])
    world.do(world.cluster.serve_again(GROUP, world.now))
    assert any(isinstance(effect, SubscribeUpstream) for effect in world.effects[before:])


def test_what_a_fetch_has_collected_is_sent() -> None:
    world = World(PoolSettings(linger=1_000.0))
    consumer = world.consumer()
    consumer.fetch(partitions=[0], minimum=100_000, wait=60.0)
    world.produce(0, 10)
    assert consumer.is_parked
    drain(world)
    assert len(consumer.received) == 10
    consumer.commit({0: consumer.positions[0]})
    assert world.stored == {source(0): 10}


def test_the_process_is_drained_when_all_pools_are() -> None:
    world, consumer = begin()
    world.do(world.cluster.begin_stop(GRACE, world.now))
    assert not world.cluster.is_drained
    newcomer = world.consumer("new", group=GROUP)
    newcomer.fetch(partitions=[0], wait=100.0)
    consumer.commit({0: consumer.positions[0]})
    assert world.cluster.is_drained
    assert not newcomer.received
    world.do(world.cluster.serve_again(GROUP, world.now))
    assert world.cluster.is_drained, "that is not undone"
