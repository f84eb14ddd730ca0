"""Members that keep up share equally, however they commit; one that does not is passed over."""

from __future__ import annotations

from mesh.pool.settings import PoolSettings
from tests.integration.records import jain_index
from tests.pool.harness import Consumer, World


def run(world: World, every_poll: list[Consumer], every_five_seconds: list[Consumer], seconds: int, size: int) -> None:
    """A batch of `size` records every 50 ms; everybody asks again at once."""
    consumers = every_poll + every_five_seconds
    for step in range(seconds * 20):
        for consumer in consumers:
            if not consumer.is_parked:
                consumer.fetch(wait=0.5)
        world.produce(step % 4, size)
        for consumer in every_poll:
            if not consumer.is_parked:
                consumer.commit()
        if step % 100 == 99:
            for consumer in every_five_seconds:
                consumer.commit()
        for consumer in consumers:
            consumer.heartbeat()
        world.advance(0.05)


def test_commits_of_every_poll_and_of_every_five_seconds_share_equally() -> None:
    world = World()
    every_poll = [world.consumer(f"poll{number}") for number in range(2)]
    every_five = [world.consumer(f"five{number}") for number in range(6)]
    run(world, every_poll, every_five, 15, 150)  # 3,000 records a second
    before = {consumer.name: len(consumer.received) for consumer in every_poll + every_five}
    run(world, every_poll, every_five, 20, 150)
    shares = [len(consumer.received) - before[consumer.name] for consumer in every_poll + every_five]
    assert jain_index(shares) > 0.98, shares


def take(consumer: Consumer, until: int) -> None:
    while not consumer.is_parked and len(consumer.received) < until:
        consumer.fetch(wait=0.5)


def test_members_that_commit_rarely_do_not_wait_for_commits_while_there_is_more() -> None:
    """Four fast consumers at auto-commit's five seconds: their caps are all full long before the first one."""
    world = World(PoolSettings(partition_budget=1 << 30, pool_budget=1 << 30))
    members = [world.consumer(f"m{number}") for number in range(4)]
    for consumer in members:
        consumer.fetch(wait=0.0)
    for _ in range(640):
        world.produce(0, 100)
    for _ in range(40):
        for consumer in members:
            take(consumer, 64_000)
        world.check()
        world.advance(0.025)
    assert sum(len(consumer.received) for consumer in members) == 64_000
    # What is left at the end goes to whoever asks first; here nothing is.
    assert jain_index([len(consumer.received) for consumer in members]) > 0.99


def test_a_full_window_does_not_grow_while_somebody_takes_below_its_cap() -> None:
    world = World(PoolSettings(partition_budget=1 << 30, pool_budget=1 << 30))
    slow, quick = world.consumer("slow"), world.consumer("quick")
    for consumer in (slow, quick):
        consumer.fetch(wait=0.0)
    for _ in range(400):
        world.produce(0, 100)
    for _ in range(20):
        take(slow, 40_000)
        for _ in range(5):
            if not quick.is_parked:
                quick.fetch(wait=0.5, maximum=10_000)
            quick.commit()
        world.advance(0.025)
    assert len(slow.received) <= 1_000
    world.check()


def test_nothing_grows_where_nothing_waits() -> None:
    world = World()
    members = [world.consumer(f"m{number}") for number in range(2)]
    for consumer in members:
        consumer.fetch(partitions=[0], wait=0.0)
    for _ in range(10):
        world.produce(0, 100)
        for consumer in members:
            take(consumer, 500)
    world.advance(0.9)
    assert [member.flow.cap for member in world.pool.members] == [500, 500]


def test_a_member_that_never_commits_gets_no_more_than_its_window() -> None:
    world = World()
    stuck, good = world.consumer("stuck"), world.consumer("good")
    for step in range(200):
        for consumer in (stuck, good):
            if not consumer.is_parked:
                consumer.fetch(wait=0.5)
        world.produce(step % 4, 50)
        if not good.is_parked:
            good.commit()
        for consumer in (stuck, good):
            consumer.heartbeat()
        world.advance(0.05)
    assert len(stuck.received) <= 4_000  # the window of 500, doubled after 1, 2 and 7 seconds
    assert len(good.received) >= 6_000
