"""Priorities of topics, and the tenth for lower ones."""

from __future__ import annotations

import pytest

from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.sharing import Sharing, TopicPriority
from tests.pool.harness import EU, ORDERS, US, Consumer, World

ROOMY = 1 << 30
SHARING = Sharing(topics=(TopicPriority(EU, ORDERS, False, 1), TopicPriority(US, "ord", True, 0)))
HIGH, LOW = (0, 1), (2, 3)
"""Partitions of eu, and of us."""


def world_of(sharing: Sharing) -> World:
    world = World(PoolSettings(sharing=sharing, initial_window=1_000_000, partition_budget=ROOMY, pool_budget=ROOMY))
    world.batch_size = 1
    return world


def taken(world: World, consumer: Consumer, fetches: int, maximum: int) -> tuple[int, int]:
    """How many records of each partition so many Fetches bring."""
    for _ in range(fetches):
        consumer.fetch(wait=0.0, maximum=maximum)
        consumer.commit()
    counts = [0, 0]
    for partition in world.pool.partitions.values():
        cluster = partition.source.cluster
        counts[cluster == US] += partition.ledger.received - partition.backlog_offsets
    world.check()
    return counts[0], counts[1]


@pytest.mark.parametrize("maximum", [800, 8_000])
def test_the_lower_has_a_tenth_while_both_wait(maximum: int) -> None:
    world = world_of(SHARING)
    consumer = world.consumer()
    for index in range(4):
        world.produce(index, 3_000)
    high, low = taken(world, consumer, 320_000 // maximum, maximum)
    assert low / (high + low) == pytest.approx(0.1, abs=0.02)


def test_without_the_higher_it_has_all() -> None:
    world = world_of(SHARING)
    consumer = world.consumer()
    for index in LOW:
        world.produce(index, 500)
    assert taken(world, consumer, 1_000, 8_000) == (0, 1_000)


def test_the_higher_comes_first() -> None:
    world = world_of(SHARING)
    consumer = world.consumer()
    for index in range(4):
        world.produce(index, 50)
    high, low = taken(world, consumer, 1, 4_000)
    assert high > 0
    assert low == 0


def test_priorities_change_while_records_wait() -> None:
    world = world_of(Sharing())
    consumer = world.consumer()
    for index in range(4):
        world.produce(index, 50)
    world.do(world.cluster.change_sharing(Sharing(topics=(TopicPriority(US, ORDERS, False, 5),)), world.now))
    high, low = taken(world, consumer, 1, 2_000)
    assert high == 0
    assert low > 0
