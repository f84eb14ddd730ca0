"""Receipt: the next fetch offset settles. For consumers without a group, and for tools that never commit."""

from __future__ import annotations

import pytest

from mesh.pool.common.group_rules import GROUP_LESS, GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import Acknowledge, PoolSettings
from tests.pool.harness import Consumer, World, source

CONSOLE = GroupId("console-consumer-1")


def groupless(world: World, name: str = "g") -> Consumer:
    return world.consumer(name, joined=False, group=GROUP_LESS, positions=dict.fromkeys(range(4), 0))


def console() -> tuple[World, Consumer]:
    world = World()
    world.group = CONSOLE
    return world, world.consumer(group=CONSOLE)


def test_the_next_fetch_offset_settles_what_was_received() -> None:
    world, consumer = console()
    world.produce(0, 3)
    consumer.fetch()
    assert not world.stored
    consumer.fetch()
    assert world.stored == {source(0): 3}
    assert world.pool.members.by_id[consumer.member_id].in_flight == 0
    world.check()


def test_a_fetch_at_the_same_offset_settles_nothing() -> None:
    world, consumer = console()
    before = dict(consumer.positions)
    world.produce(0, 3)
    consumer.fetch()
    received, consumer.received = consumer.received, []
    consumer.positions = before
    consumer.fetch()
    assert consumer.received == received
    assert not world.stored


def test_commits_are_taken_all_the_same() -> None:
    world, consumer = console()
    world.produce(0, 3)
    consumer.fetch()
    consumer.commit()
    assert world.stored == {source(0): 3}


def test_consumers_without_a_group_have_one_pool_and_share_it() -> None:
    world = World()
    first, second = groupless(world, "a"), groupless(world, "b")
    first.fetch()
    second.fetch()
    with world.of(GROUP_LESS):
        for index in range(4):
            world.produce(index, 2)
            for consumer in (first, second):
                if not consumer.is_parked:
                    consumer.fetch()
        assert (len(first.received), len(second.received)) == (4, 4)
        assert world.stored == {source(index): 2 for index in range(4)}
    world.check()


def test_a_consumer_without_a_group_starts_at_its_slot_not_at_0() -> None:
    world = World()
    consumer = groupless(world)
    consumer.fetch()
    with world.of(GROUP_LESS):
        world.produce(0, 2)
    assert consumer.positions[0] > 1 << 32
    assert len(consumer.received) == 2


def test_what_a_consumer_without_a_group_has_not_received_goes_back_when_its_connection_is_gone() -> None:
    world = World(PoolSettings(fast_expiry=3.0, linger=10.0))
    first, second = groupless(world, "a"), groupless(world, "b")
    first.fetch()
    with world.of(GROUP_LESS):
        world.produce(0, 2)
        first.disconnect()
        second.fetch(wait=30.0)
        world.advance(3.1)
        assert len(second.received) == 2
        assert len(world.pool.members.groupless) == 1


def test_each_connection_of_a_client_that_seeks_nowhere_stays_one_member() -> None:
    world = World()
    consumer = groupless(world)
    for _ in range(5):
        consumer.fetch(wait=0.0)
    with world.of(GROUP_LESS):
        assert len(world.pool.members.groupless) == 1


def test_consumers_without_a_group_can_be_refused() -> None:
    world = World(rules=GroupRules(group_less=None))
    consumer = groupless(world)
    consumer.fetch()
    assert not consumer.is_parked
    assert not world.cluster.pools


@pytest.mark.parametrize(
    ("group", "mode"),
    [
        (GROUP_LESS, Acknowledge.RECEIPT),
        (CONSOLE, Acknowledge.RECEIPT),
        ("shop", Acknowledge.COMMIT),
        ("audit-1", Acknowledge.RECEIPT),
        ("console-consumer-audit", Acknowledge.COMMIT),
    ],
)
def test_consumers_that_settle_by_receipt(group: str, mode: Acknowledge) -> None:
    rules = GroupRules(
        acknowledge=(
            ("audit-*", Acknowledge.RECEIPT),
            ("*-audit", Acknowledge.COMMIT),
            ("audit-1", Acknowledge.COMMIT),
        )
    )
    assert rules.mode(group) is mode


def test_a_receipt_that_makes_room_offers_the_backlog_to_the_other_fetches_of_its_member() -> None:
    """kafka-go fetches each partition on a separate connection."""
    world = World(PoolSettings(initial_window=3))
    world.group = CONSOLE
    consumer, other = world.consumer(group=CONSOLE), world.consumer("other", group=CONSOLE)
    other.fetch(partitions=[3], wait=30.0)
    consumer.fetch(partitions=[0], wait=30.0)
    world.produce(0, 3)
    world.reconnect(consumer)
    consumer.fetch(partitions=[1], wait=30.0)
    parked = consumer.ticket
    world.produce(1, 3)
    assert parked in world.fetches
    world.reconnect(consumer)
    consumer.fetch(partitions=[0], wait=30.0)
    assert parked not in world.fetches
    world.check()
