"""A log that was truncated under its reader: below the cut all state stays, from the cut on it is new."""

from __future__ import annotations

import pytest

from mesh.pool.common.effects import Report, RereadUpstream
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.offsets.metadata import unpack
from mesh.pool.state.leases import LeaseBacklog
from mesh.pool.state.partition import Partition
from mesh.records.spans import Gap, Span
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, Consumer, World, batch_of, source, value_of
from tests.pool.leases.test_service import lease, send, world_of

HERE = source(0)


def values(consumer: Consumer) -> list[int]:
    return [int(value.rpartition(b"@")[2]) for _, _, value in consumer.received]


def truncate(world: World, offset: int) -> None:
    """Another leader has the log up to this offset, and a higher committed offset moves back."""
    world.ends[HERE] = min(world.ends.get(HERE, 0), offset)
    world.logs[HERE] = [(first, min(last, offset - 1)) for first, last in world.logs.get(HERE, []) if first < offset]
    world.may_move_back.add(HERE)
    world.upstream(lambda pool: pool.intake.truncated(HERE, offset, world.now))
    world.check()


def receive(world: World, first: int, last: int) -> None:
    world.logs.setdefault(HERE, []).append((first, last))
    world.ends[HERE] = last + 1
    batch = batch_of(HERE, first, last)
    world.upstream(lambda pool: pool.intake.received(HERE, [batch], world.now, Gap.EMPTY))
    world.check()


def take_all(consumer: Consumer) -> None:
    before = -1
    while len(consumer.received) != before:
        before = len(consumer.received)
        consumer.fetch(partitions=[0], wait=0.0)


def partition_of(world: World) -> Partition:
    return world.pool.partitions[HERE]


@pytest.mark.parametrize("replay_budget", [0, 1 << 20])
def test_what_survived_and_was_not_acknowledged_is_delivered(replay_budget: int) -> None:
    world = World(PoolSettings(replay_budget=replay_budget))
    holder = world.consumer("holder")
    for _ in range(10):
        world.produce(0, 10)
    holder.fetch(partitions=[0], wait=0.0)
    for _ in range(4):
        world.produce(0, 10)
    assert values(holder) == list(range(100))
    truncate(world, 95)
    assert world.stored.get(HERE, 0) == 0, "nothing was acknowledged"
    holder.leave()
    other = world.consumer("other")
    receive(world, 95, 99)
    take_all(other)
    assert sorted(values(other)) == list(range(100))
    other.commit()
    assert world.stored == {HERE: 100}
    world.check()


def test_what_members_hold_below_the_cut_stays_theirs() -> None:
    world = World()
    holder, other = world.consumer("holder"), world.consumer("other")
    for _ in range(10):
        world.produce(0, 10)
        holder.fetch(partitions=[0], wait=0.0)
    truncate(world, 47)
    assert world.pool.members.by_id[holder.member_id].in_flight == 47
    assert set(world.answer(holder.commit(), CommitResult).errors.values()) == {ErrorCode.NONE}
    assert world.stored == {HERE: 47}
    receive(world, 47, 60)
    holder.fetch(partitions=[0], wait=0.0)
    take_all(other)
    assert sorted([*values(holder)[100:], *values(other)]) == list(range(47, 61))
    assert holder.heartbeat() is ErrorCode.NONE, "nobody has to join again"


def test_a_replay_across_the_cut_has_the_records_that_are_there() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 10)
    consumer.fetch(partitions=[0], wait=0.0)
    start = consumer.received[0][1]
    truncate(world, 4)
    receive(world, 4, 6)
    consumer.positions[0], consumer.received = start, []
    consumer.fetch(partitions=[0], wait=30.0)
    assert [each.span for each in world.effects if isinstance(each, RereadUpstream)] == [Span(0, 3)]
    take_all(consumer)
    assert values(consumer) == list(range(7))


def test_what_was_acknowledged_above_the_cut_comes_again() -> None:
    """Out of order, and in order: the committed offset goes back to the cut, as a consumer's position does."""
    world = World()
    first, second = world.consumer("first"), world.consumer("second")
    world.produce(0, 10)
    first.fetch(partitions=[0], wait=0.0)
    world.produce(0, 10)
    second.fetch(partitions=[0], wait=0.0)
    second.commit()
    stored = world.upstreams[world.group].committed(HERE)
    assert unpack(HERE, 0, stored.metadata).runs == (Span(10, 19),)
    truncate(world, 15)
    stored = world.upstreams[world.group].committed(HERE)
    assert (stored.offset, unpack(HERE, 0, stored.metadata).runs) == (0, (Span(10, 14),))
    first.commit()
    assert world.stored == {HERE: 15}
    truncate(world, 12)
    assert world.stored == {HERE: 12}
    receive(world, 12, 19)
    take_all(second)
    assert values(second) == [*range(10, 20), *range(12, 20)]


def test_the_backlog_is_cut_and_what_reaches_across_is_read_again() -> None:
    world = World(auto_reread=False)
    consumer = world.consumer()
    consumer.fetch(partitions=[1], wait=30.0)
    world.batch_size = 5
    world.produce(0, 30)
    world.produce(0, 30)
    truncate(world, 17)
    assert (partition_of(world).backlog_bytes, list(partition_of(world).backlog)) == (0, [])
    assert [each.span for each in world.pending_rereads] == [Span(0, 16)]
    world.reread()
    receive(world, 17, 20)
    take_all(consumer)
    assert values(consumer) == list(range(21))


def test_what_is_being_read_again_is_asked_for_once_more() -> None:
    world = World(PoolSettings(replay_budget=0), auto_reread=False)
    first, second = world.consumer("first"), world.consumer("second")
    world.produce(0, 10)
    first.fetch(partitions=[0], wait=0.0)
    second.fetch(partitions=[0], wait=30.0)
    first.leave()
    (before,) = world.pending_rereads
    truncate(world, 6)
    old = batch_of(HERE, 0, 9)
    world.upstream(lambda pool: pool.intake.reread(HERE, before.token, (old,), True, "", 0, world.now))
    assert values(second) == [], "of a log that is not there any more"
    world.pending_rereads.remove(before)
    (again,) = world.pending_rereads
    assert again.span == Span(0, 5)
    world.reread()
    receive(world, 6, 7)
    take_all(second)
    assert values(second) == list(range(8))


def test_what_leases_hold_is_cut() -> None:
    world = world_of(ends=100)
    lease(world, "a", most=400)
    truncate(world, 60)
    assert [(each.span.first, each.span.last) for each in partition_of(world).leased.values()] == [(0, 59)]
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, ("orders",), 1.0, world.now))
    world.advance(0.2)
    seen = world.answer(ticket, LeaseBacklog)
    assert [(each.leased, each.end) for each in seen.partitions if each.partition == HERE] == [(60, 60)]


def test_nothing_is_told_where_nothing_was_known_from_the_cut_on() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 10)
    consumer.fetch(partitions=[0], wait=0.0)
    truncate(world, 10)
    world.upstream(lambda pool: pool.intake.truncated(source(3), 0, world.now))
    assert not [each for each in world.effects if isinstance(each, Report) and "truncated" in each.event]
    assert values(consumer) == [int(value_of(HERE, each).rpartition(b"@")[2]) for each in range(10)]


def test_a_partition_that_is_being_moved_is_cut_and_waits() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 10)
    world.upstream(lambda pool: pool.intake.revoked([HERE]))
    consumer.fetch(partitions=[0], wait=30.0)
    truncate(world, 6)
    assert values(consumer) == []
    world.assign(EU, resumed=True)
    receive(world, 6, 9)
    take_all(consumer)
    assert values(consumer) == list(range(10))
