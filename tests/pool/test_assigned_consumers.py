"""Consumers with a group in assign() mode, after an outage. They ask once for the offsets of their group, and then only
fetch and commit: nothing but their offsets and commits tells what they are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mesh.pool.common.group_rules import GROUP_LESS, GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.security.principals import Principal
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Consumer
from tests.pool.harness import GROUP, World, source

GRACE = PoolSettings().unidentified_grace
AWAY = PoolSettings().fast_expiry + 0.5
OTHER = GroupId("other")
ALICE, MALLORY = Principal("User:alice"), Principal("User:mallory")


def commit(world: World, consumer: Consumer, positions: dict[int, int] | None = None) -> set[ErrorCode]:
    ticket = consumer.commit(positions)
    world.advance(PoolSettings().commit_timeout)
    return set(world.answer(ticket, CommitResult).errors.values())


def working(world: World, name: str = "c", principal: Principal = ALICE) -> Consumer:
    """A consumer in assign() mode that has received and committed 10 records."""
    consumer = world.consumer(name, joined=False, principal=principal)
    consumer.reset()
    world.produce(0, 10)
    consumer.fetch()
    assert len(consumer.received) == 10
    assert commit(world, consumer) == {ErrorCode.NONE}
    return consumer


def cut(world: World, *consumers: Consumer) -> None:
    """Cuts all connections of these consumers for so long that their members are forgotten."""
    for consumer in consumers:
        consumer.disconnect()
    world.advance(AWAY)
    for consumer in consumers:
        world.reconnect(consumer)


def restarted(world: World, positions: Mapping[int, int], name: str = "c") -> tuple[World, Consumer]:
    """The mesh after a restart, and a consumer that continues at these positions."""
    again = World()
    again.upstreams = world.upstreams
    return again, again.consumer(name, joined=False, positions=positions, principal=ALICE)


def poll(world: World, consumer: Consumer, seconds: float) -> None:
    for _ in range(int(seconds * 2)):
        consumer.fetch(wait=0.5)
        world.advance(0.5)


def assert_continues_in(world: World, consumer: Consumer, group: GroupId = GROUP) -> None:
    """Asserts that the consumer gets what is new in its group, and can commit it."""
    with world.of(group):
        before = len(consumer.received)
        consumer.fetch(wait=0.0)
        assert list(world.cluster.pools) == [group]
        world.produce(0, 5)
        consumer.fetch()
        consumer.fetch(wait=0.0)
        assert len(consumer.received) == before + 5
        assert len({value for _, _, value in consumer.received}) == len(consumer.received)
        assert commit(world, consumer) == {ErrorCode.NONE}
        assert world.stored == {source(0): world.ends[source(0)]}
        world.check()


# Its member is gone


def test_after_its_connections_were_cut_it_continues_in_its_group_at_once() -> None:
    world = World()
    consumer = working(world)
    cut(world, consumer)
    assert_continues_in(world, consumer)


def test_uncommitted_records_come_again_in_its_group() -> None:
    world = World()
    consumer = working(world)
    world.produce(0, 5)
    consumer.fetch()
    cut(world, consumer)
    consumer.fetch()
    assert [value for _, _, value in consumer.received[-5:]] == [value for _, _, value in consumer.received[10:15]]
    assert len(consumer.received) == 20


def test_it_continues_after_each_outage() -> None:
    world = World()
    consumer = working(world)
    for _ in range(3):
        cut(world, consumer)
        assert_continues_in(world, consumer)


def test_on_two_connections_it_is_one_member() -> None:
    world = World()
    consumer = working(world)
    cut(world, consumer)
    for _ in range(2):
        consumer.fetching = world.connect(ALICE)
        consumer.fetch(wait=0.0)
    assert len(world.pool.members) == 1


def test_it_continues_in_its_group_if_it_first_fetches_when_its_slot_was_forgotten() -> None:
    world = World()
    consumer = world.consumer(joined=False, principal=ALICE)
    consumer.reset()
    world.advance(PoolSettings().lock_timeout + 10)
    assert not world.cluster.pools
    assert_continues_in(world, consumer)


def test_it_continues_in_its_group_if_its_pool_was_closed() -> None:
    world = World()
    consumer = working(world)
    world.do(world.cluster.upstream(world.pool, lambda pool: pool.end(world.now), world.now))
    assert not world.cluster.pools
    assert_continues_in(world, consumer)


def test_a_commit_while_its_group_has_no_pool_is_accepted_and_settles_nothing() -> None:
    world = World()
    consumer = working(world)
    stored = dict(world.stored)
    consumer.disconnect()
    world.advance(AWAY + 10)
    assert not world.cluster.pools
    world.reconnect(consumer)
    assert commit(world, consumer) == {ErrorCode.NONE}
    assert world.stored == stored
    assert not world.cluster.pools


def test_a_consumer_of_the_same_client_without_a_group_stays_without_one() -> None:
    world = World()
    assigned = working(world)
    assigned.fetch(wait=0.0)  # so that the other one is not taken for it
    without = world.consumer(joined=False, positions={0: 0}, principal=ALICE)
    without.fetch(wait=0.0)
    with world.of(GROUP_LESS):
        world.produce(0, 3)
        without.fetch()
        without.fetch(wait=0.0)
    cut(world, assigned, without)
    without.fetch(wait=0.0)
    assert GROUP not in world.cluster.pools or not world.pool.members
    assigned.fetch(wait=0.0)
    assert [len(world.cluster.pools[group].members) for group in (GROUP, GROUP_LESS)] == [1, 1]
    world.produce(0, 3)
    assigned.fetch()
    assert (len(assigned.received), len(without.received)) == (13, 3)


def test_a_former_slot_tells_nothing_about_another_principal() -> None:
    world = World()
    consumer = working(world)
    cut(world, consumer)
    mallory = world.consumer(joined=False, positions=consumer.positions, principal=MALLORY)
    mallory.fetch(wait=0.0)
    assert GROUP not in world.cluster.pools or not world.pool.members


def test_it_gets_no_records_of_another_group_if_its_own_is_not_admitted_any_more() -> None:
    world = World()
    consumer = working(world)
    consumer.disconnect()
    world.advance(AWAY + 10)
    world.do(world.cluster.change_rules(GroupRules(admitted=(OTHER,)), 0.0, world.now))
    world.reconnect(consumer)
    poll(world, consumer, 2 * GRACE)
    assert not world.cluster.pools
    assert commit(world, consumer) == {ErrorCode.UNKNOWN_MEMBER_ID}


# The mesh was restarted


def test_after_a_restart_a_commit_tells_its_group() -> None:
    world = World()
    again, consumer = restarted(world, working(world).positions)
    poll(again, consumer, GRACE / 2)
    assert commit(again, consumer) == {ErrorCode.NONE}
    consumer.fetch(wait=0.0)
    assert list(again.cluster.pools) == [GROUP]
    poll(again, consumer, 2 * GRACE)
    assert list(again.cluster.pools) == [GROUP]
    again.produce(0, 5)
    consumer.fetch()
    assert len(consumer.received) == 5


def test_a_commit_that_comes_late_moves_it_to_its_group() -> None:
    world = World()
    again, consumer = restarted(world, working(world).positions)
    poll(again, consumer, 2 * GRACE)
    assert list(again.cluster.pools) == [GROUP_LESS]
    with again.of(GROUP_LESS):
        again.produce(0, 3)
        consumer.fetch(wait=0.0)
    assert commit(again, consumer) == {ErrorCode.NONE}
    assert not again.cluster.pools
    consumer.fetch(wait=0.0)
    assert len(again.pool.members.groupless) == 1
    again.produce(0, 5)
    consumer.fetch()
    assert commit(again, consumer) == {ErrorCode.NONE}
    assert again.stored == {source(0): again.ends[source(0)]}


def test_a_late_commit_moves_it_though_it_has_received_nothing() -> None:
    world = World()
    again, consumer = restarted(world, working(world).positions)
    poll(again, consumer, 2 * GRACE)
    assert list(again.cluster.pools) == [GROUP_LESS]
    assert commit(again, consumer) == {ErrorCode.NONE}
    poll(again, consumer, GRACE)
    assert list(again.cluster.pools) == [GROUP]


def test_a_commit_tells_its_group_though_one_position_was_sought() -> None:
    world = World()
    again, consumer = restarted(world, working(world).positions)
    assert commit(again, consumer, {**consumer.positions, 3: 0}) == {ErrorCode.NONE}
    consumer.fetch(wait=0.0)
    assert list(again.cluster.pools) == [GROUP]


def test_a_former_slot_keeps_its_group_when_a_commit_names_another() -> None:
    world = World()
    consumer = working(world)
    cut(world, consumer)
    consumer.group = OTHER
    assert commit(world, consumer) == {ErrorCode.UNKNOWN_MEMBER_ID}
    consumer.fetch(wait=0.0)
    assert list(world.cluster.pools) == [GROUP]


def test_a_commit_tells_nothing_about_other_slots_of_its_client() -> None:
    world = World()
    again, consumer = restarted(world, working(world).positions)
    without = again.consumer(joined=False, positions={0: (5 << 32) + 12_345}, principal=ALICE)
    assert commit(again, consumer) == {ErrorCode.NONE}
    poll(again, without, GRACE + 1)
    assert list(again.cluster.pools) == [GROUP_LESS]


@pytest.mark.parametrize("offset", [0, 5, -1, (1 << 32) - 1, 1 << 54, (7 << 32) | 0xFFFF_FFFF])
def test_an_offset_that_no_member_was_ever_given_tells_nothing(offset: int) -> None:
    world = World()
    consumer = world.consumer(joined=False)
    assert commit(world, consumer, {0: offset}) == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_commit_cannot_take_the_slot_of_another_consumer() -> None:
    world = World()
    without = world.consumer("without", joined=False, positions={0: 0}, principal=ALICE)
    without.fetch(wait=0.0)
    with world.of(GROUP_LESS):
        world.produce(0, 3)
        without.fetch(wait=0.0)
    for principal, ahead in ((MALLORY, 0), (ALICE, 1)):
        thief = world.consumer("thief", joined=False, principal=principal)
        assert commit(world, thief, {0: without.positions[0] + ahead}) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(world.cluster.pools[GROUP_LESS].members.groupless) == 1


def test_the_commit_of_a_slot_that_a_member_of_a_group_has_is_refused() -> None:
    world = World()
    member = world.consumer(principal=ALICE)
    thief = world.consumer("thief", joined=False, principal=ALICE, group=OTHER)
    positions = {0: member.positions[0], 1: (5 << 32) + 12_345}
    assert commit(world, thief, positions) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert member.heartbeat() is ErrorCode.NONE
