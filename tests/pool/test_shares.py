"""Members that keep up share equally, however they commit; one that does not is passed over."""

from __future__ import annotations

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
