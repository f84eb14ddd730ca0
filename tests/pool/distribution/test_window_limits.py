"""A member that is alone in a pool has no cap, unless a batch engine leases beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.leases import HolderId, LeaseGranted, LeaseId, LeaseRequest
from tests.pool.catching_up import QUICK, CatchUp
from tests.pool.harness import GROUP, ORDERS, Consumer, World, source

DEEP = [pytest.mark.long, pytest.mark.deep]

WINDOW = 10
PRESENCE = 4.0
SETTINGS = PoolSettings(initial_window=WINDOW, presence=PRESENCE)


def world_with_member() -> tuple[World, Consumer]:
    """A member that is alone, and has no records yet."""
    world = World(SETTINGS)
    member = world.consumer()
    member.fetch(wait=0.0)
    return world, member


def lease(world: World, id: str = "a", ttl: float = 60.0) -> int:
    """Leases; returns the number of offsets."""
    wanted = LeaseRequest(id=LeaseId(id), holder=HolderId("job"), topics=(ORDERS,), most=1_000, ttl=ttl)
    ticket = world.ticket()
    _, effects = world.cluster.leasing(GROUP, lambda pool: pool.lease(ticket, wanted, world.now), world.now)
    world.do(effects)
    world.check()
    return sum(len(each.span) for each in world.answer(ticket, LeaseGranted).ranges)


def produce(world: World, batches: int) -> None:
    """Brings batches of five records to the first partition."""
    for _ in range(batches):
        world.produce(0, 5)
    end = world.pool.partitions[source(0)].ledger.received
    world.upstream(lambda pool: pool.intake.ends_known({source(0): end}))


def take(world: World, member: Consumer, fetches: int = 20) -> int:
    """The records that it got by fetching so often."""
    before = len(member.received)
    for _ in range(fetches):
        member.fetch(wait=0.0, partition_maximum=1)
    world.check()
    return len(member.received) - before


def test_a_member_that_is_alone_takes_everything() -> None:
    world, member = world_with_member()
    produce(world, 20)
    assert take(world, member) == 100


def test_a_member_that_is_alone_beside_leases_is_held_to_its_window() -> None:
    world, member = world_with_member()
    assert lease(world) == 0, "nothing is there yet"
    produce(world, 20)
    assert take(world, member) == WINDOW
    assert lease(world, "b") == 45, "half of what is left"


def test_what_it_held_before_counts() -> None:
    world, member = world_with_member()
    produce(world, 20)
    take(world, member)
    lease(world)
    produce(world, 20)
    assert take(world, member) == 0
    member.commit({0: member.positions[0]})
    assert take(world, member) > 0


def beside_one_at_work(batches: int) -> tuple[World, Consumer]:
    """A member with a full window that wants more; another one holds half of its own window. So many batches are
    left."""
    world, member = world_with_member()
    other = world.consumer("other")
    other.fetch(wait=0.0)
    produce(world, 3 + batches)
    assert (take(world, member), take(world, other, fetches=1)) == (WINDOW, WINDOW // 2)
    member.fetch(partitions=[0], wait=1_000.0)
    assert member.is_parked
    return world, member


def test_a_full_member_has_more_when_that_leaves_the_others_enough() -> None:
    world, member = beside_one_at_work(batches=20)
    world.advance(0.11)
    assert not member.is_parked
    take(world, member)
    assert len(member.received) == 2 * WINDOW
    member.fetch(partitions=[0], wait=1_000.0)
    world.advance(0.5)
    assert member.is_parked, "twice what the other may hold"


def test_a_full_member_waits_for_those_that_may_take_what_is_left() -> None:
    world, member = beside_one_at_work(batches=1)
    world.advance(0.5)
    assert member.is_parked
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 1_000}))
    world.produce(0, 5)
    world.advance(0.11)
    assert not member.is_parked, "what stands in the log counts"


def test_when_nobody_leases_any_more_it_takes_everything_again() -> None:
    world, member = world_with_member()
    lease(world)
    produce(world, 100)
    take(world, member)
    member.fetch(partitions=[0], wait=1_000.0)
    world.advance(PRESENCE - 1.0)
    assert len(member.received) < 100, "its window grows, as it does beside members"
    world.advance(1.0)
    take(world, member, fetches=100)
    assert len(member.received) == 500


def test_as_long_as_something_is_leased_it_is_held() -> None:
    world, member = world_with_member()
    produce(world, 20)
    assert lease(world, ttl=10 * PRESENCE) == 50
    window_limits = world.pool.serving.distribution.window_limits
    world.advance(5 * PRESENCE)
    assert window_limits.are_kept
    world.advance(20 * PRESENCE)
    assert not window_limits.are_kept
    take(world, member)


# Members that join while others read a long log at full rate


RATE = 10_000
"""Records a second for all of them together."""
LONG = 1_000_000
EVERY_SECOND, EVERY_FIVE, MIXED = (1.0, 1.0, 1.0), (5.0, 5.0, 5.0), (5.0, 1.0, None)
"""Seconds between two commits of each joining member; None for a commit after each poll."""


@pytest.mark.parametrize(
    ("first", "joiners", "phase", "begun"),
    [
        (1.0, EVERY_SECOND, 0.02, 2.0),
        pytest.param(1.0, EVERY_SECOND, 0.5, 6.5, marks=DEEP),
        pytest.param(5.0, EVERY_FIVE, 0.02, 2.0, marks=DEEP),
        pytest.param(5.0, EVERY_FIVE, 0.5, 6.5, marks=DEEP),
        (1.0, MIXED, 0.5, 2.0),
        pytest.param(5.0, MIXED, 0.02, 2.0, marks=DEEP),
    ],
)
def test_a_member_that_joins_a_catch_up_late_has_its_share_within_seconds(
    first: float, joiners: Sequence[float | None], phase: float, begun: float
) -> None:
    """At any time of joining, and of a joiner's first commit: seconds later, for all its records since then; or at
    once, for very few."""
    catch_up = CatchUp(LONG, RATE)
    catch_up.add(QUICK, first)
    catch_up.run(begun)
    for every in joiners:
        catch_up.add(QUICK, every, phase)
    seconds = [catch_up.run(1.0) for _ in range(5)]
    catch_up.world.check()
    share = RATE / 4
    early, late = ([sum(each) for each in zip(*part, strict=True)] for part in (seconds[:2], seconds[2:]))
    assert min(early[1:]) >= share, f"less than half within two seconds: {seconds}"
    assert min(late[1:]) >= 3 * 0.8 * share, f"not all of it from then on: {seconds}"
    assert min(each[0] for each in seconds) >= 0.5 * share, f"the first one has less than half: {seconds}"


def test_a_member_that_joins_late_has_its_share_where_clients_and_not_the_log_are_slow() -> None:
    """There are always more records than they take: the pool keeps them, up to its budget."""
    catch_up = CatchUp(LONG, 3 * RATE)
    catch_up.add(RATE / 4, 1.0)
    catch_up.run(2.0)
    for _ in range(3):
        catch_up.add(RATE / 4, 1.0, 0.5)
    seconds = [catch_up.run(2.0) for _ in range(2)]
    catch_up.world.check()
    assert min(seconds[0]) >= RATE / 4, seconds
    assert min(seconds[1]) >= 0.9 * 2 * RATE / 4, seconds


def test_a_slow_member_that_joins_late_has_next_to_nothing_of_a_catch_up_and_holds_nobody_back() -> None:
    catch_up = CatchUp(LONG, RATE)
    catch_up.add(QUICK, 1.0)
    catch_up.run(2.0)
    quick = catch_up.add(QUICK, 5.0, 0.5)
    slow = catch_up.add(10.0, None, per_poll=1)
    seconds = [catch_up.run(1.0) for _ in range(4)]
    catch_up.world.check()
    assert slow.waiting <= 10 * WINDOW, seconds
    assert quick.taken >= 0.8 * 4 * RATE / 2, seconds
    assert all(sum(each) >= 0.99 * RATE for each in seconds[1:]), seconds


@pytest.mark.parametrize("every", [None, 1.0])
def test_a_slow_member_that_has_just_joined_has_its_first_window_of_a_burst(every: float | None) -> None:
    """Beside others that have committed while few records came: their windows grow, and its own does not."""
    catch_up = CatchUp(0, QUICK, PoolSettings(initial_window=50))
    for _ in range(2):
        catch_up.add(4_000.0, every, 0.3)
    for _ in range(4):
        catch_up.grow(20)
        catch_up.run(0.5)
    slow = catch_up.add(2.0, None, per_poll=1)
    catch_up.run(0.2)
    before = slow.taken
    catch_up.grow(1_000)
    catch_up.run(2.0)
    catch_up.world.check()
    assert slow.taken - before <= 60
    assert sum(reader.taken for reader in catch_up.readers) == 80 + 1_000


def test_one_known_to_be_slow_that_has_room_does_not_keep_the_windows_of_others_small() -> None:
    """It processes one record, and does not fetch meanwhile."""
    world = World(PoolSettings(initial_window=10, partition_budget=1 << 30, pool_budget=1 << 30))
    slow, *others = [world.consumer(name) for name in ("slow", "a", "b")]
    slow.fetch(wait=0.0)
    world.produce(0, 9)
    slow.fetch(wait=0.0)
    world.advance(1.0)
    slow.commit({0: slow.received[0][1] + 1})
    assert [member.flow.is_slow for member in world.pool.members] == [True, False, False]
    for consumer in others:
        consumer.fetch(wait=0.0)
    for _ in range(200):
        world.produce(0, 10)
    for _ in range(100):
        for consumer in others:
            while not consumer.is_parked and sum(len(each.received) for each in others) < 1_900:
                consumer.fetch(wait=0.5)
        world.advance(0.01)
    world.check()
    assert sum(len(each.received) for each in others) >= 1_900
