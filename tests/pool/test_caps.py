"""Who is alone in a pool has no cap, unless a batch engine leases beside it."""

from __future__ import annotations

from mesh.pool.leased import HolderId, LeaseGranted, LeaseId, LeaseRequest
from mesh.pool.settings import PoolSettings
from tests.pool.harness import GROUP, ORDERS, Consumer, World, source

WINDOW = 10
PRESENCE = 4.0
SETTINGS = PoolSettings(initial_window=WINDOW, presence=PRESENCE)


def world_with_member() -> tuple[World, Consumer]:
    """A member that is alone, and has nothing yet."""
    world = World(SETTINGS)
    member = world.consumer()
    member.fetch(wait=0.0)
    return world, member


def lease(world: World, id: str = "a", ttl: float = 60.0) -> int:
    """How many offsets it got."""
    wanted = LeaseRequest(id=LeaseId(id), holder=HolderId("job"), topics=(ORDERS,), most=1_000, ttl=ttl)
    ticket = world.ticket()
    _, effects = world.cluster.leasing(GROUP, lambda pool: pool.lease(ticket, wanted, world.now), world.now)
    world.do(effects)
    world.check()
    return sum(len(each.span) for each in world.answer(ticket, LeaseGranted).ranges)


def produce(world: World, batches: int) -> None:
    """Batches of five records, to the first partition."""
    for _ in range(batches):
        world.produce(0, 5)
    end = world.pool.partitions[source(0)].ledger.received
    world.upstream(lambda pool: pool.inflow.ends_known({source(0): end}))


def take(world: World, member: Consumer, fetches: int = 20) -> int:
    """What it got by asking so often."""
    before = len(member.received)
    for _ in range(fetches):
        member.fetch(wait=0.0, partition_maximum=1)
    world.check()
    return len(member.received) - before


def test_who_is_alone_takes_everything() -> None:
    world, member = world_with_member()
    produce(world, 20)
    assert take(world, member) == 100


def test_who_is_alone_beside_leases_is_held_to_its_window() -> None:
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
    """A member with a full window that asks for more; another one holds half of its own. So many batches are left."""
    world, member = world_with_member()
    other = world.consumer("other")
    other.fetch(wait=0.0)
    produce(world, 3 + batches)
    assert (take(world, member), take(world, other, fetches=1)) == (WINDOW, WINDOW // 2)
    member.fetch(partitions=[0], wait=1_000.0)
    assert member.is_parked
    return world, member


def test_who_is_full_has_more_when_that_leaves_the_others_enough() -> None:
    world, member = beside_one_at_work(batches=20)
    world.advance(0.11)
    assert not member.is_parked
    take(world, member)
    assert len(member.received) == 2 * WINDOW
    member.fetch(partitions=[0], wait=1_000.0)
    world.advance(0.5)
    assert member.is_parked, "twice what the other may hold"


def test_who_is_full_waits_for_those_who_may_take_what_is_left() -> None:
    world, member = beside_one_at_work(batches=1)
    world.advance(0.5)
    assert member.is_parked
    world.upstream(lambda pool: pool.inflow.ends_known({source(0): 1_000}))
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
    caps = world.pool.serving.distribution.caps
    world.advance(5 * PRESENCE)
    assert caps.are_kept
    world.advance(20 * PRESENCE)
    assert not caps.are_kept
    take(world, member)
