"""Members with weights and priorities."""

from __future__ import annotations

import pytest

from mesh.pool.common.settings import Policy, PoolSettings
from mesh.pool.common.sharing import ClientPattern, Sharing, WeightRule
from mesh.security.principals import user
from tests.pool.harness import Consumer, World
from tests.pool.test_shares import run

DEEP = [pytest.mark.long, pytest.mark.deep]


def rule(client_id: str, weight: float = 1.0, priority: int = 0) -> WeightRule:
    return WeightRule(ClientPattern(client_id=client_id), weight, priority)


def shares(world: World, consumers: list[Consumer], size: int, seconds: int = 20) -> list[float]:
    """The shares of the records that come after a while."""
    run(world, consumers, [], 10, size)
    before = [len(each.received) for each in consumers]
    run(world, consumers, [], seconds, size)
    had = [len(each.received) - was for each, was in zip(consumers, before, strict=True)]
    return [each / sum(had) for each in had]


UNEVEN = [(2.0, 1.0, 1.0), (0.05, 1.0, 1.0), (8.0, 4.0, 1.0), (1.0, 1.0, 1.0)]


@pytest.mark.parametrize(
    ("weights", "batch", "size"),
    [
        *((weights, None, 10) for weights in UNEVEN),
        (UNEVEN[1], 100, 200),
        *(pytest.param(weights, 100, 200, marks=pytest.mark.long) for weights in UNEVEN if weights != UNEVEN[1]),
        *(pytest.param(weights, 10, 200, marks=DEEP) for weights in UNEVEN),
    ],
)
def test_shares_are_within_a_tenth_of_the_weights(weights: tuple[float, ...], batch: int | None, size: int) -> None:
    world = World(PoolSettings(sharing=Sharing(weights=tuple(rule(f"c{i}", each) for i, each in enumerate(weights)))))
    world.batch_size = batch
    consumers = [world.consumer(f"c{number}") for number in range(len(weights))]
    found = shares(world, consumers, size)
    for share, weight in zip(found, weights, strict=True):
        assert share == pytest.approx(weight / sum(weights), rel=0.1, abs=0.005)
    assert all(found), "nobody starves"


@pytest.mark.parametrize("policy", Policy)
def test_a_lower_priority_has_what_the_higher_one_does_not_ask_for(policy: Policy) -> None:
    settings = PoolSettings(
        policy=policy, initial_window=100, maximum_window=100, sharing=Sharing(weights=(rule("first", priority=1),))
    )
    world = World(settings)
    low, first = [world.consumer(f"low{number}") for number in range(3)], world.consumer("first")
    for consumer in [*low, first]:
        consumer.fetch(wait=60.0)
    world.batch_size = 10
    for index in range(4):
        world.produce_together({index: 20}, 10)
        if not first.is_parked:
            first.fetch(wait=60.0)
    assert len(first.received) == 80
    assert not any(each.received for each in low)
    for index in range(4):
        world.produce_together({index: 20}, 10)
        for consumer in [*low, first]:
            if not consumer.is_parked:
                consumer.fetch(wait=60.0)
    assert len(first.received) == 100, "it commits nothing, and is full"
    assert sum(len(each.received) for each in low) == 60


def test_the_first_rule_that_matches_counts_and_principals_do_too() -> None:
    sharing = Sharing(weights=(rule("c-1", 4.0), rule("c-*", 2.0), WeightRule(ClientPattern(principal="User:x"), 3.0)))
    world = World(PoolSettings(sharing=sharing))
    consumers = [world.consumer(name) for name in ("c-1", "c-2", "other")]
    consumers.append(world.consumer("other", principal=user("x")))
    for consumer in consumers:
        consumer.fetch(wait=0.0)
    members = [world.pool.members.by_id[each.member_id].preference for each in consumers]
    assert [each.weight if each is not None else None for each in members] == [4.0, 2.0, None, 3.0]


def test_weights_change_while_members_wait() -> None:
    world = World()
    consumers = [world.consumer(f"c{number}") for number in range(2)]
    assert shares(world, consumers, 10) == pytest.approx([0.5, 0.5], abs=0.03)
    world.do(world.cluster.change_sharing(Sharing(weights=(rule("c0", 3.0),)), world.now))
    assert shares(world, consumers, 10) == pytest.approx([0.75, 0.25], abs=0.03)
    world.do(world.cluster.change_sharing(Sharing(), world.now))
    assert shares(world, consumers, 10) == pytest.approx([0.5, 0.5], abs=0.03)
