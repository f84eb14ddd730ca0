"""Members that keep up share equally, whatever their way of committing; a member that falls behind gets less."""

from __future__ import annotations

import random

import pytest

from mesh.pool.common.settings import PoolSettings
from tests.integration.records import jain_index
from tests.pool.harness import Consumer, World

DEEP = [pytest.mark.long, pytest.mark.deep]


def run(world: World, every_poll: list[Consumer], every_five_seconds: list[Consumer], seconds: int, size: int) -> None:
    """Brings a batch of `size` records every 50 ms; each member fetches again at once."""
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


def short_burst(seed: int) -> list[int]:
    """Some thousand records within 60 ms, in answers of three partitions each; each of eight members takes 5 to 40 ms
    to fetch again. Returns how many each of them got."""
    generator = random.Random(seed)
    world = World()
    consumers = [world.consumer(f"c{number}") for number in range(8)]
    rests = [0] * len(consumers)

    def run(milliseconds: int) -> None:
        for _ in range(milliseconds):
            for number, consumer in enumerate(consumers):
                if not consumer.is_parked:
                    rests[number] -= 1
                    if rests[number] <= 0:
                        consumer.commit()
                        consumer.fetch(wait=0.5)
                        rests[number] = generator.randint(5, 40)
            world.advance(0.001)

    run(100)
    for _ in range(4):  # the pool learns how long each is away
        world.produce_together(dict.fromkeys(range(4), 8), 1)
        run(60)
    before = [len(consumer.received) for consumer in consumers]
    for _ in range(7):
        some = generator.sample(range(4), 3)
        world.produce_together({index: 50 * generator.randint(1, 12) for index in some}, 50)
        run(8)
    run(600)
    world.check()
    return [len(consumer.received) - had for consumer, had in zip(consumers, before, strict=True)]


def test_a_short_burst_is_shared_evenly_by_members_that_take_a_while_to_ask_again() -> None:
    """Java members do. Before, the first partition of an answer satisfied all waiting members; the rest went to the
    member that came first."""
    indexes = [jain_index(short_burst(seed)) for seed in range(8)]
    assert sum(indexes) / len(indexes) > 0.98, indexes


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


@pytest.mark.parametrize("batches", [640, pytest.param(1_000, marks=DEEP)])
def test_members_that_commit_rarely_do_not_wait_for_commits_while_there_is_more(batches: int) -> None:
    """Four fast consumers with auto-commit's five seconds: their caps are all full long before the first commit.
    Waiting records go to them in equal parts, even a last uneven rest."""
    count = batches * 100
    world = World(PoolSettings(partition_budget=1 << 30, pool_budget=1 << 30))
    members = [world.consumer(f"m{number}") for number in range(4)]
    for consumer in members:
        consumer.fetch(wait=0.0)
    for _ in range(batches):
        world.produce(0, 100)
    for _ in range(40):
        for consumer in members:
            take(consumer, count)
        world.check()
        world.advance(0.025)
    shares = [len(consumer.received) for consumer in members]
    assert sum(shares) == count
    assert jain_index(shares) > 0.99
    assert max(shares) - min(shares) <= 400, shares


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


class Worker:
    """A client that fetches ahead as much as it gets, processes one record after the other, and commits after each
    poll."""

    def __init__(self, consumer: Consumer, seconds_per_record: float, per_poll: int) -> None:
        self.consumer = consumer
        self._seconds_per_record = seconds_per_record
        self._per_poll = per_poll
        self._done = 0
        self._polled_at: float | None = None

    @property
    def held(self) -> int:
        return len(self.consumer.received) - self._done

    def step(self, now: float) -> None:
        if not self.consumer.is_parked:
            self.consumer.fetch(wait=0.5)
        polled = min(self._per_poll, self.held)
        if polled and self._polled_at is None:
            self._polled_at = now
        if self._polled_at is not None and now >= self._polled_at + polled * self._seconds_per_record:
            done = self.consumer.received[self._done : self._done + polled]
            self.consumer.commit({partition: offset + 1 for partition, offset, _ in done})
            self._done += polled
            self._polled_at = None


def burst(known: bool, seconds_per_record: float = 0.0002) -> tuple[int, int]:
    """Ten thousand records at once, for two quick members and a slow one, which have committed before or are new. The
    quick ones take 500 at a poll, and need the given time for each of them.

    Returns how many the slow one got, and how many the others got.
    """
    world = World(PoolSettings(partition_budget=1 << 30, pool_budget=1 << 30))
    slow = Worker(world.consumer("slow"), 0.5, 1)
    quick = [Worker(world.consumer(f"quick{number}"), seconds_per_record, 500) for number in (1, 2)]
    workers = [slow, *quick]

    def run(seconds: float) -> None:
        for step in range(round(seconds / 0.005)):
            for worker in workers:
                worker.step(world.now)
                if step % 200 == 0:
                    worker.consumer.heartbeat()
            world.advance(0.005)

    run(0.1)
    if known:
        for _ in range(12):
            world.produce(0, 10)
            run(0.5)
        run(8.0)  # the slow one has processed its records
    before = slow.held, sum(len(worker.consumer.received) for worker in quick)
    for _ in range(100):
        world.produce(0, 100)
    run(3.0)
    world.check()
    return slow.held - before[0], sum(len(worker.consumer.received) for worker in quick) - before[1]


@pytest.mark.parametrize("seconds_per_record", [0.0002, 0.001])
def test_a_slow_member_has_next_to_nothing_of_a_burst(seconds_per_record: float) -> None:
    """However long the others take for their first poll of it."""
    slow, quick = burst(known=True, seconds_per_record=seconds_per_record)
    assert slow <= 20, slow
    assert slow + quick >= 9_900, quick  # it may have settled some of its own


def test_a_slow_member_does_not_hold_back_those_that_have_not_committed_yet() -> None:
    world = World(PoolSettings(partition_budget=1 << 30, pool_budget=1 << 30))
    slow = Worker(world.consumer("slow"), 0.5, 1)
    quick = [world.consumer(f"quick{number}") for number in (1, 2, 3)]  # their first commit is five seconds away
    for consumer in quick:
        consumer.fetch(wait=0.0)
    for step in range(600):
        slow.step(world.now)
        if step % 100 == 0:
            world.produce(0, 10)
        if step == 400:
            for _ in range(300):
                world.produce(0, 100)
        for consumer in quick:
            take(consumer, 30_000)
        world.advance(0.005)
    assert not [member for member in world.pool.members if member.flow.keeps_up], "what this is about"
    assert sum(len(consumer.received) for consumer in quick) >= 29_000
    world.check()


def test_a_member_that_works_for_long_on_a_record_has_its_first_window_of_a_burst_and_no_more() -> None:
    slow, quick = burst(known=False)
    assert slow <= 500, slow
    assert slow + quick >= 9_900, quick
