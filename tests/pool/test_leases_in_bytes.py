"""Leases that are bounded in bytes, although none of their records has been read."""

from __future__ import annotations

import pytest

from mesh.pool.common.settings import PoolSettings
from mesh.pool.leases.choose import USUAL_SIZE
from mesh.pool.leases.service import SIZES_WITHIN
from mesh.pool.state.leases import Acknowledgement, HolderId, LeaseGranted, LeaseId, LeaseRequest
from tests.pool.harness import EU, GROUP, ORDERS, World, source

END = 10_000


@pytest.fixture
def world() -> World:
    """Each of four partitions has ten thousand unread records."""
    world = World(PoolSettings(presence=600.0))
    send(world, "first", most_bytes=None)
    world.assign_all()
    world.upstream(lambda pool: pool.intake.ends_known({source(index): END for index in range(4)}))
    return world


def send(world: World, id: str, most_bytes: int | None, most: int = 100_000, wait: float = 0.0) -> object:
    ticket = world.ticket()
    wanted = LeaseRequest(
        id=LeaseId(id),
        holder=HolderId(id),
        topics=(ORDERS,),
        most=most,
        most_bytes=most_bytes,
        ttl=60.0,
        wait=wait,
    )
    _, effects = world.cluster.leasing(GROUP, lambda pool: pool.lease(ticket, wanted, world.now), world.now)
    world.do(effects)
    return ticket


def granted(world: World, ticket: object) -> dict[int, int]:
    """The number of offsets by partition."""
    world.check()
    ranges = world.answer(ticket, LeaseGranted).ranges
    return {
        index: sum(len(each.span) for each in ranges if each.partition == source(index))
        for index in range(4)
        if any(each.partition == source(index) for each in ranges)
    }


def weigh(world: World, index: int, mean: float) -> None:
    world.pool.partitions[source(index)].mean_size = mean


def test_by_what_is_known_of_the_records_of_each_partition(world: World) -> None:
    for index, mean in enumerate((10.0, 100.0, 1_000.0, 10_000.0)):
        weigh(world, index, mean)
    taken = granted(world, send(world, "a", most_bytes=400_000))
    assert taken == {0: 10_000, 1: 1_000, 2: 100, 3: 10}


def test_what_one_partition_does_not_have_others_may_give(world: World) -> None:
    for index in range(4):
        weigh(world, index, 100.0)
    world.upstream(lambda pool: pool.intake.ends_known({source(3): END}))
    taken = granted(world, send(world, "a", most_bytes=3_000_000))
    assert sum(taken.values()) == 30_000


def test_both_bounds_hold(world: World) -> None:
    for index in range(4):
        weigh(world, index, 100.0)
    assert sum(granted(world, send(world, "a", most_bytes=1_000_000, most=400)).values()) == 400
    assert sum(granted(world, send(world, "b", most_bytes=1_000_000, most=40_000)).values()) == 10_000


def test_one_record_at_least_however_large(world: World) -> None:
    for index in range(4):
        weigh(world, index, 1e9)
    assert sum(granted(world, send(world, "a", most_bytes=1)).values()) == 1


def test_engines_read_some_if_nothing_is_known_and_stop_then(world: World) -> None:
    upstream = world.upstreams[GROUP]
    assert EU in upstream.idle
    ticket = send(world, "a", most_bytes=40_000, wait=10.0)
    assert EU not in upstream.idle
    assert ticket not in world.answers
    for index in range(4):
        world.produce(index, 10)
    world.advance(1.0)
    means = [world.pool.partitions[source(index)].mean_size for index in range(4)]
    assert all(mean > 0 for mean in means)
    taken = granted(world, ticket)
    assert 30_000 < sum(count * means[index] for index, count in taken.items()) <= 40_000
    assert EU in upstream.idle


def test_it_is_not_waited_for_records_that_do_not_come(world: World) -> None:
    ticket = send(world, "a", most_bytes=40_000, wait=10.0)
    world.advance(SIZES_WITHIN + 0.2)
    assert sum(granted(world, ticket).values()) == 40_000 / USUAL_SIZE


def test_a_holder_may_say_how_large_they_were(world: World) -> None:
    taken = granted(world, send(world, "a", most_bytes=None, most=400))
    assert taken == {0: 100, 1: 100, 2: 100, 3: 100}
    ticket = world.ticket()
    wanted = Acknowledgement(id=LeaseId("a"), holder=HolderId("a"), ranges=None, size=400 * 50)
    _, effects = world.cluster.leasing(
        GROUP,
        lambda pool: pool.leases.acknowledge(ticket, wanted, world.now),
        world.now,
    )
    world.do(effects)
    assert {world.pool.partitions[source(index)].mean_size for index in range(4)} == {50.0}


def test_what_came_last_counts_most(world: World) -> None:
    partition = world.pool.partitions[source(0)]
    partition.learn_size(1_000, 10)
    assert partition.mean_size == 100.0
    for _ in range(20):
        partition.learn_size(2_000, 10)
    assert 195.0 < partition.mean_size < 200.0
