"""Members between two Fetches: a member that fetches less often gets no less, and none waits for a member that stays
away."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mesh.pool.common.settings import Policy, PoolSettings
from mesh.pool.distribution.fetch_queue import HALF_LIFE, with_more
from mesh.pool.distribution.reservations import LONGEST, MOST_BYTES, PATIENCE
from tests.benchmarks.steps import count_steps
from tests.integration.records import jain_index
from tests.pool.harness import Consumer, World, batch_of, source

TICK = 0.001
Rests = list[tuple[Consumer, int]]
"""Consumers, with the milliseconds that each rests between two Fetches."""


def run(world: World, rests: Rests, ticks: int, size: int = 2, every: int = 1) -> None:
    """Brings a batch of `size` records every so many milliseconds; each consumer commits and fetches again after its
    rest."""
    since = [0] * len(rests)
    for tick in range(ticks):
        if tick % every == 0:
            world.produce(tick % 4, size)
        for number, (consumer, rest) in enumerate(rests):
            if not consumer.is_parked:
                since[number] += 1
                if since[number] > rest:
                    since[number] = 0
                    consumer.commit()
                    consumer.fetch(wait=0.5)
        if tick % 500 == 0:
            for consumer, _ in rests:
                consumer.heartbeat()
        world.advance(TICK)


def shares_of(world: World, rests: Rests, ticks: int, **load: int) -> list[int]:
    run(world, rests, 200, **load)
    before = [len(consumer.received) for consumer, _ in rests]
    run(world, rests, ticks, **load)
    world.check()
    return [len(consumer.received) - had for (consumer, _), had in zip(rests, before, strict=True)]


def test_a_member_that_asks_again_later_has_no_less() -> None:
    """The Java consumer fetches again some milliseconds after the others: it used to get a third of small batches."""
    world = World()
    rests = [(world.consumer(f"c{number}"), 8 if number < 2 else 0) for number in range(6)]
    shares = shares_of(world, rests, 1_000)
    assert jain_index(shares) > 0.98, shares


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=6), st.sampled_from([1, 3]), st.sampled_from([1, 5]))
def test_shares_are_even_however_often_members_ask(times: list[int], size: int, every: int) -> None:
    world = World()
    rests = [(world.consumer(f"c{number}"), rest) for number, rest in enumerate(times)]
    shares = shares_of(world, rests, 600, size=size, every=every)
    assert jain_index(shares) > 0.95, shares


def test_what_is_kept_is_given_to_others_when_its_member_does_not_come() -> None:
    world = World()
    away, other = world.consumer("away"), world.consumer("other")
    run(world, [(away, 5), (other, 0)], 300)
    while away.is_parked:
        run(world, [(away, 5), (other, 0)], 1)
    received = len(other.received)
    run(world, [(other, 0)], 500)
    assert world.pool.serving.distribution.reservations.size == 0
    world.check()
    assert len(other.received) > received
    stored = sum(last - first + 1 for log in world.logs.values() for first, last in log)
    assert len(away.received) + len(other.received) == stored


def assert_in_order(consumers: Iterable[Consumer]) -> None:
    """Asserts that each member has the records of a partition in the order of the log; for tests without redelivery."""
    for consumer in consumers:
        highest: dict[str, int] = {}
        for _, _, value in consumer.received:
            place, _, offset = value.decode().rpartition("@")
            assert highest.get(place, -1) < int(offset), f"{consumer.member_id}: {value!r}"
            highest[place] = int(offset)


@settings(max_examples=8, deadline=None, phases=[Phase.generate])
@given(
    st.lists(st.sampled_from([0, 3, 8, 20]), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(5, 120)), min_size=1, max_size=8),
    st.sampled_from([1, 7]),
)
def test_a_member_that_stays_away_for_longer_than_usual_brings_no_disorder(
    times: list[int], stays: list[tuple[int, int]], size: int
) -> None:
    """Meanwhile others get the later records; then the member does not get the reserved ones after those."""
    world = World()
    rests = [(world.consumer(f"c{number}"), rest) for number, rest in enumerate(times)]
    run(world, rests, 150, size=size)
    for number, ticks in stays:
        run(world, [each for index, each in enumerate(rests) if index != number % len(rests)], ticks, size=size)
        run(world, rests, 40, size=size)
    world.check()
    assert_in_order(consumer for consumer, _ in rests)


def test_what_was_kept_of_partitions_that_a_member_does_not_ask_for_brings_no_disorder() -> None:
    """librdkafka leaves out a partition whose queue is full, for a second. Records that others have passed wait."""
    world = World()
    rests = [(world.consumer(name), rest) for name, rest in (("full", 8), ("a", 0), ("b", 3))]
    full, reservations = rests[0][0], world.pool.serving.distribution.reservations
    run(world, rests, 150, size=7)
    for _ in range(20):
        while full.is_parked or not reservations.size:
            run(world, rests, 1, size=7)
        run(world, rests[1:], 100, size=7)
        full.commit()
        full.fetch(partitions=[3], wait=0.1)
        run(world, rests[1:], 200, size=7)
        run(world, rests, 40, size=7)
    world.check()
    assert_in_order(consumer for consumer, _ in rests)
    run(world, rests, 1_000, size=1, every=10_000)
    stored = sum(last - first + 1 for log in world.logs.values() for first, last in log)
    assert len({value for consumer, _ in rests for _, _, value in consumer.received}) == stored


def test_what_was_kept_for_one_that_hangs_goes_to_others_with_what_it_holds() -> None:
    world = World(PoolSettings(lock_timeout=5.0))
    rests = [(world.consumer(name), rest) for name, rest in (("hangs", 8), ("a", 0), ("b", 3))]
    distribution = world.pool.serving.distribution
    run(world, rests, 150, size=7)
    for _ in range(400):  # until something is reserved for it that the others go past
        run(world, rests, 1, size=7)
        if not rests[0][0].is_parked and distribution.reservations.size:
            break
    run(world, rests[1:], 1_000, size=7)
    assert distribution.reservations.size
    for _ in range(12):
        rests[0][0].heartbeat()
        run(world, rests[1:], 500, every=1_000)
    world.check()
    stored = sum(last - first + 1 for log in world.logs.values() for first, last in log)
    assert len({value for consumer, _ in rests for _, _, value in consumer.received}) == stored


def test_nobody_is_waited_for_for_long() -> None:
    world = World()
    slow, other = world.consumer("slow"), world.consumer("other")
    member = next(each for each in world.pool.members if each.id == slow.member_id)
    run(world, [(slow, int(2_000 * LONGEST)), (other, 0)], 1_600)
    assert member.usually_away > LONGEST
    assert world.pool.serving.distribution.reservations.size == 0
    assert PATIENCE * LONGEST <= 0.5


def test_nothing_is_kept_for_one_that_is_alone() -> None:
    world = World()
    alone = world.consumer("alone")
    run(world, [(alone, 5)], 100)
    for _ in range(50):
        run(world, [(alone, 5)], 1)
        assert not any(partition.reservations for partition in world.pool.partitions.values())


def test_other_policies_keep_nothing() -> None:
    for policy in (Policy.ROUND_ROBIN, Policy.OLDEST_FIRST):
        world = World(PoolSettings(policy=policy))
        rests = [(world.consumer("a"), 5), (world.consumer("b"), 0)]
        for _ in range(50):
            run(world, rests, 1)
            assert world.pool.serving.distribution.reservations.size == 0


def test_what_is_kept_survives_its_member() -> None:
    """The member leaves, or its partition is revoked and comes back: another member gets the records."""
    world = World()
    away, other = world.consumer("away"), world.consumer("other")
    rests = [(away, 5), (other, 0)]
    run(world, rests, 300)
    while not world.pool.serving.distribution.reservations.size:
        run(world, rests, 1)
    world.check()
    away.leave()
    world.check()
    assert world.pool.serving.distribution.reservations.size == 0
    run(world, [(other, 0)], 100)
    assert not any(partition.backlog for partition in world.pool.partitions.values())


def test_nothing_is_kept_for_one_without_a_connection() -> None:
    world = World()
    away, other = world.consumer("away"), world.consumer("other")
    rests = [(away, 5), (other, 0)]
    run(world, rests, 300)
    while not world.pool.serving.distribution.reservations.size:
        run(world, rests, 1)
    away.disconnect()
    world.check()
    assert world.pool.serving.distribution.reservations.size == 0
    assert not any(partition.backlog for partition in world.pool.partitions.values()) or not other.is_parked


def test_little_is_kept_for_one() -> None:
    world = World()
    away, other = world.consumer("away"), world.consumer("other")
    run(world, [(away, 5), (other, 5)], 100)
    for _ in range(20):
        run(world, [(away, 5), (other, 5)], 1, size=500)
        assert world.pool.serving.distribution.reservations.size <= 2 * MOST_BYTES


@pytest.mark.parametrize(("records", "is_kept"), [(500, True), (20_000, False)])
def test_nothing_is_kept_of_plenty(records: int, is_kept: bool) -> None:
    """Some records will still be there when the member fetches again; and its next answer has all that it may have of
    them."""
    world = World()
    world.batch_size = 50
    away, other = world.consumer("away"), world.consumer("other")
    rests = [(away, 5), (other, 0)]
    run(world, rests, 300)
    reservations = world.pool.serving.distribution.reservations
    while away.is_parked or reservations.size or not other.is_parked:
        run(world, rests, 1)
    world.produce(0, records)
    assert bool(reservations.size) is is_kept
    assert not other.is_parked
    world.check()
    received = len(away.received)
    away.fetch(wait=0.5)
    assert len(away.received) > received


@given(
    st.lists(st.tuples(st.integers(1, 1_000_000), st.floats(0, 60)), min_size=1, max_size=30),
    st.floats(0, 1e9),
)
def test_what_was_had_lately_is_the_sum_that_halves_with_time(given_: list[tuple[int, float]], start: float) -> None:
    recent, expected, now = float("-inf"), 0.0, start
    for count, pause in given_:
        expected *= 2.0 ** (-pause / HALF_LIFE)
        now += pause
        expected += count
        recent = with_more(recent, count, now)
    found = 2.0 ** (recent - now / HALF_LIFE)
    assert abs(found - expected) <= 1e-5 * expected


def test_many_that_are_away_cost_no_more_than_few() -> None:
    """The number of steps for a batch that comes while all members are away, by their number."""

    def steps(members: int) -> int:
        world = World(PoolSettings(max_members=2_000))
        consumers: list[Consumer] = []
        for number in range(members):
            consumers.append(world.consumer(f"c{number}"))
            for consumer in consumers if number % 10 == 0 else ():  # joining takes time
                consumer.heartbeat()
        for consumer in consumers:
            consumer.fetch(partitions=[0], wait=0.5)
        for member in world.pool.members:
            member.usually_away = LONGEST
        for _ in range(members):
            world.produce(0, 1)
        assert not any(consumer.is_parked for consumer in consumers)
        assert not world.pool.serving.distribution.reservations.size
        world.produce(0, 1)
        assert world.pool.serving.distribution.reservations.size
        partition = world.pool.partitions[source(0)]
        batch = batch_of(source(0), partition.ledger.received, partition.ledger.received + 1)
        return count_steps(lambda: world.upstream(lambda pool: pool.intake.received(source(0), [batch], world.now)))

    few, many = steps(8), steps(200)
    assert many <= few * 1.3, (few, many)
