"""Members that limits hold back, and the events that let them go on."""

from __future__ import annotations

import pytest

from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.sharing import ClientPattern, LimitRule, Sharing
from mesh.pool.distribution.obstacles import Obstacle
from tests.pool.harness import Consumer, World
from tests.pool.test_shares import run

DEEP = [pytest.mark.long, pytest.mark.deep]

ROOMY = 1 << 30


def world_of(*limits: LimitRule, window: int = 1_000_000) -> World:
    sharing = Sharing(limits=limits)
    return World(PoolSettings(sharing=sharing, initial_window=window, partition_budget=ROOMY, pool_budget=ROOMY))


def consume(world: World, consumers: list[Consumer], seconds: float, commit: bool = True) -> None:
    """Each member fetches again, and commits, every ten milliseconds."""
    for _ in range(round(seconds * 100)):
        for consumer in consumers:
            if commit and consumer.received:
                consumer.commit()
            if not consumer.is_parked:
                consumer.fetch(wait=30.0)
        world.advance(0.01)
    world.check()


def fill(world: World, count: int, size: int = 10) -> None:
    """Fills a backlog with so many records in small batches."""
    world.batch_size = size
    for index in range(4):
        world.produce(index, count // 4)


def test_a_rate_holds_for_all_together() -> None:
    world = world_of(LimitRule(records_per_second=200.0))
    consumers = [world.consumer(f"c{number}") for number in range(3)]
    fill(world, 8_000)
    consume(world, consumers, 10)
    assert 2_000 <= sum(len(each.received) for each in consumers) <= 2_200 + 100


def test_a_rate_of_each_holds_for_one_that_is_alone_too() -> None:
    world = world_of(LimitRule(records_per_second=100.0, is_of_each=True))
    alone = world.consumer()
    fill(world, 8_000)
    consume(world, [alone], 5)
    assert 500 <= len(alone.received) <= 600 + 20
    others = [world.consumer(f"c{number}") for number in range(3)]
    consume(world, [alone, *others], 5)
    assert all(500 <= len(each.received) <= 620 for each in others)


def test_a_batch_above_the_rate_is_cut_if_it_can_be() -> None:
    world = world_of(LimitRule(records_per_second=10.0))
    alone = world.consumer()
    world.produce(0, 500)
    consume(world, [alone], 10)
    assert 100 <= len(alone.received) <= 120


def test_bytes() -> None:
    world = world_of(LimitRule(bytes_per_second=10_000.0))
    alone = world.consumer()
    fill(world, 8_000)
    each = next(iter(next(iter(world.pool.partitions.values())).backlog.values())).size / 2_000
    consume(world, [alone], 10)
    assert 100_000 * 0.95 <= len(alone.received) * each <= 110_000 * 1.05 + 1_000


def test_a_parked_fetch_is_woken_by_what_is_settled() -> None:
    world = world_of(LimitRule(in_flight=50))
    one, two = world.consumer("one"), world.consumer("two")
    fill(world, 1_000)
    consume(world, [one, two], 0.5, commit=False)
    assert len(one.received) + len(two.received) == 50
    assert one.is_parked
    assert two.is_parked
    member = world.pool.members.by_id[two.member_id]
    assert member.is_held_back
    fetch = world.pool.serving.distribution.parked.of(member)[0]
    found = {world.pool.serving.distribution.obstacle(member, each) for each in fetch.partition_fetches}
    assert found == {Obstacle.HELD_BACK}
    (one if one.received else two).commit()
    assert len(one.received) + len(two.received) > 50, "in the same step"


def test_in_flight_of_each() -> None:
    world = world_of(LimitRule(in_flight=30, is_of_each=True))
    consumers = [world.consumer(f"c{number}") for number in range(3)]
    fill(world, 1_000)
    consume(world, consumers, 0.5, commit=False)
    assert [len(each.received) for each in consumers] == [30, 30, 30]
    consume(world, consumers, 2)
    assert sum(len(each.received) for each in consumers) == 1_000


def test_one_that_leaves_gives_back_what_it_held_of_a_common_limit() -> None:
    world = world_of(LimitRule(in_flight=40))
    one, two = world.consumer("one"), world.consumer("two")
    fill(world, 100)
    consume(world, [one], 0.1, commit=False)
    had = len(one.received)
    assert 40 <= had < 50, "a batch that begins below is given whole"
    consume(world, [two], 0.1, commit=False)
    assert not two.received
    one.leave()
    world.advance(1)
    assert 40 <= len(two.received) < 50


def test_a_limit_holds_for_its_group_and_its_clients_only() -> None:
    rule = LimitRule(group="other*", records_per_second=1.0)
    its = LimitRule(clients=ClientPattern(client_id="slow-*"), records_per_second=100.0)
    world = world_of(rule, its)
    slow, quick = world.consumer("slow-1"), world.consumer("quick")
    fill(world, 4_000)
    consume(world, [slow, quick], 5)
    assert len(slow.received) <= 620
    assert len(slow.received) + len(quick.received) == 4_000


CANARY = LimitRule(clients=ClientPattern(client_id="canary-*"), share=0.05)


@pytest.mark.parametrize("backlog", [pytest.param(True, marks=DEEP), False])
def test_a_canary_has_five_per_cent(backlog: bool) -> None:
    """It gets this share of new records and of a backlog, however fast it is; all canaries together."""
    world = world_of(CANARY)
    stable = [world.consumer(f"stable-{number}") for number in range(3)]
    canaries = [world.consumer(f"canary-{number}") for number in range(2)]
    if backlog:
        world.batch_size = 10
        for _ in range(200):
            world.produce_together(dict.fromkeys(range(4), 50), 10)
            consume(world, [*canaries, *stable], 0.05)
    else:
        run(world, [*canaries, *stable], [], 40, 50)
    had = sum(len(each.received) for each in canaries)
    total = had + sum(len(each.received) for each in stable)
    assert total == 40_000
    assert 0.045 <= had / total <= 0.055


def test_a_canary_has_nothing_while_the_others_take_nothing_and_all_when_there_are_none() -> None:
    world = world_of(CANARY, window=100)
    stable, canary = world.consumer("stable"), world.consumer("canary-1")
    stable.fetch(wait=0.0)
    world.advance(0.1)
    canary.fetch(wait=30.0)
    fill(world, 400)
    world.advance(0.1)
    assert not canary.received, "it waits for the others"
    stable.leave()
    world.advance(1)
    consume(world, [canary], 1)
    assert len(canary.received) == 400


def test_limits_change_while_members_wait() -> None:
    world = world_of(LimitRule(records_per_second=1.0))
    consumers = [world.consumer(f"c{number}") for number in range(2)]
    fill(world, 1_000)
    consume(world, consumers, 1)
    had = sum(len(each.received) for each in consumers)
    assert had <= 20
    world.do(world.cluster.change_sharing(Sharing(limits=(LimitRule(in_flight=100),)), world.now))
    consume(world, consumers, 0.2, commit=False)
    assert sum(len(each.received) for each in consumers) < had + 100 + 10
    world.do(world.cluster.change_sharing(Sharing(), world.now))
    consume(world, consumers, 1)
    assert sum(len(each.received) for each in consumers) == 1_000
    world.advance(60)
    world.check()


def test_what_a_canary_had_while_it_was_alone_is_not_counted_off_later() -> None:
    world = world_of(CANARY)
    canary = world.consumer("canary-1")
    consume(world, [canary], 0.1)
    fill(world, 4_000)
    consume(world, [canary], 1)
    assert len(canary.received) == 4_000
    stable = world.consumer("stable")
    consume(world, [stable], 0.1)
    for _ in range(20):
        world.produce_together(dict.fromkeys(range(4), 50), 10)
        consume(world, [stable, canary], 0.05)
    had = len(canary.received) - 4_000
    assert 0.03 <= had / 4_000 <= 0.06
