"""The view of a pool for people; the reason why a member gets nothing is the distribution's own."""

from __future__ import annotations

from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.inspection import (
    IDLE,
    ONLY_SUSPECTED,
    MemberView,
    PartitionView,
    PoolView,
    attributed,
    holding_commits,
    known_ends,
    view,
    why_nothing,
)
from tests.pool.harness import EU, US, Consumer, World, source


def seen(world: World) -> PoolView:
    return view(world.pool, world.cluster.topics, world.now)


def member(world: World, consumer: Consumer) -> MemberView:
    (found,) = [each for each in seen(world).members if each.name == consumer.member_id]
    return found


def partition(world: World, index: int) -> PartitionView:
    (found,) = [each for each in seen(world).partitions if each.source == source(index)]
    return found


def reason(world: World, consumer: Consumer) -> str | None:
    return why_nothing(world.pool, world.pool.members.by_id[consumer.member_id], world.now)


def test_what_a_member_holds_and_since_when() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch()
    world.produce(0, count=10)
    world.advance(4.0)
    found = member(world, consumer)
    assert (found.records, found.spans, found.protocol, found.acknowledge) == (10, 1, "classic", "commit")
    assert found.held_since is not None
    assert world.now - found.held_since == 4.0
    shown = partition(world, 0)
    assert (shown.oldest, shown.holder, shown.ownership, shown.committed) == (0, consumer.member_id, "active", 0)
    assert shown.oldest_since is not None and world.now - shown.oldest_since == 4.0
    consumer.commit()
    assert (member(world, consumer).records, partition(world, 0).oldest) == (0, None)
    assert partition(world, 0).committed == 10


def test_what_a_member_was_ever_given() -> None:
    world = World()
    first, second = world.consumer("first"), world.consumer("second")
    first.fetch()
    world.produce(0, count=10)
    found = member(world, first)
    assert (found.delivered, found.redelivered, found.committed_at) == (10, 0, None)
    first.leave()
    second.fetch()
    found = member(world, second)
    assert (found.delivered, found.redelivered) == (10, 10)
    second.commit()
    found = member(world, second)
    assert (found.delivered, found.redelivered, found.records, found.committed_at) == (10, 10, 0, world.now)


def test_for_whom_committed_offsets_wait() -> None:
    """They wait for the member that holds the lowest record of a partition, not for those that hold later ones."""
    world = World(PoolSettings(initial_window=10))
    first, second = world.consumer("first"), world.consumer("second")
    first.fetch()
    world.produce(0, count=10)
    world.advance(4.0)
    second.fetch()
    world.produce(0, count=10)
    assert second.received
    members = world.pool.members.by_id
    assert {each.id: world.now - since for each, since in holding_commits(world.pool).items()} == {first.member_id: 4.0}
    second.commit()
    assert list(holding_commits(world.pool)) == [members[first.member_id]]
    first.commit()
    assert holding_commits(world.pool) == {}


def test_what_waits_is_held_by_nobody() -> None:
    world = World()
    world.consumer().fetch(wait=0)
    world.produce(0, count=10)
    shown = partition(world, 0)
    assert (shown.oldest, shown.holder, shown.backlog) == (0, None, 10)


def test_why_a_member_gets_nothing() -> None:
    world = World(PoolSettings(initial_window=10))
    consumer = world.consumer("a")
    assert reason(world, consumer) == "has not fetched yet"
    consumer.fetch()
    world.assign(EU)
    assert reason(world, consumer) == "no backlog; partition not assigned to this process"
    world.assign(US)
    assert reason(world, consumer) == "no backlog"
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 5}))
    assert reason(world, consumer) == "no backlog; records are on their way"
    world.upstream(lambda pool: pool.commits.cluster_down(EU))
    assert reason(world, consumer) == f"no backlog; source {EU} is down"
    world.upstream(lambda pool: pool.intake.revoked([source(index) for index in range(4)]))
    assert reason(world, consumer) == "upstream rebalance"


def test_a_member_at_its_cap() -> None:
    world = World(PoolSettings(initial_window=10))
    first, second = world.consumer("a"), world.consumer("b")
    for consumer in (first, second):
        consumer.fetch()
    world.produce(0, count=10)
    world.produce(1, count=10)
    for consumer in (first, second):
        if consumer.ticket is None:
            consumer.fetch()
    assert {reason(world, first), reason(world, second)} == {"at its cap, never committed"}
    world.produce(2, count=5)
    holder = world.pool.serving.distribution
    assert all(holder.window_limits.is_full(each) for each in world.pool.members), "the distribution says the same"


def test_a_member_that_does_not_fetch() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(wait=0)
    assert reason(world, consumer) is None, "it was answered just now"
    world.advance(IDLE + 0.5)
    assert reason(world, consumer) == "does not fetch"


def test_partitions_are_attributed_once() -> None:
    world = World()
    first, second = world.consumer("a"), world.consumer("b")
    first.fetch()
    world.produce(2, count=3)
    second.fetch()
    shares = {each.name: numbers for each, numbers in attributed(world.pool, world.cluster.topics).items()}
    assert ("orders", 2) in shares[first.member_id]
    everything = [number for numbers in shares.values() for number in numbers]
    assert sorted(everything) == [("orders", index) for index in range(4)]
    assert len(shares[second.member_id]) in (1, 2)


def test_ends_that_some_pool_knows() -> None:
    world = World()
    world.consumer().fetch()
    world.assign_all()
    assert known_ends(world.cluster.pools, source(0)) is None
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 5}))
    assert known_ends(world.cluster.pools, source(0)) == 5


def test_a_member_that_tastes_is_said_to() -> None:
    """It gets no records although some wait: those wait for other members, and it waits for suspected records."""
    world = World(PoolSettings(redelivery=Redelivery(limit=2), linger=1_000.0))
    doomed = world.consumer("doomed")
    world.produce(0, count=4)
    doomed.fetch(partitions=[0], wait=0.0)
    doomed.disconnect()
    world.advance(3.0)
    on_trial = world.consumer("taster")
    on_trial.fetch(partitions=[0], wait=0.0)
    assert len(on_trial.received) == 2
    on_trial.fetch(partitions=[0], wait=30.0)
    assert reason(world, on_trial) == ONLY_SUSPECTED
    world.produce(0, count=4)
    assert on_trial.is_parked
    assert reason(world, on_trial) == ONLY_SUSPECTED
