"""Topics that get more partitions: the mesh makes clients ask for metadata, once each, and they lose no records."""

from __future__ import annotations

import pytest

from mesh.pool.groups.membership import OUTDATED_GRACE
from mesh.pool.state.fetch import FetchResult
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, ORDERS, US, Consumer, World

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Watching(World):
    """Remembers the answer for each partition of each Fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[list[ErrorCode]] = []

    def _answered(self, ticket: object, result: object) -> None:
        if isinstance(result, FetchResult):
            self.errors.append([each.error for each in result.partitions])
        super()._answered(ticket, result)

    def grow(self, count: int = 3) -> None:
        self.do(self.cluster.topics_changed(EU, {ORDERS: count}, self.now))


def told(world: Watching) -> int:
    return sum(errors.count(NOT_LEADER) for errors in world.errors)


def test_a_fetch_that_waits_is_answered_at_once_for_one_partition() -> None:
    world = Watching()
    consumer = world.consumer()
    world.produce(0, 10)
    consumer.fetch()
    consumer.fetch(wait=30.0)
    assert consumer.is_parked
    world.grow()
    assert not consumer.is_parked
    assert world.errors[-1] == [NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE]
    assert told(world) == 1


def test_else_the_next_fetch_is_and_no_other() -> None:
    world = Watching()
    consumer = world.consumer()
    world.produce(0, 10)
    consumer.fetch()
    world.grow()
    for _ in range(5):
        world.produce(0, 10)
        consumer.fetch(wait=0.01)
        world.advance(0.1)
    assert told(world) == 1
    assert len(consumer.received) == 60  # later records came, too


def test_what_a_fetch_has_collected_is_given_with_it() -> None:
    world = Watching()
    consumer = world.consumer()
    consumer.fetch(minimum=1 << 19, wait=30.0)
    world.produce(0, 10)
    assert consumer.is_parked
    world.grow()
    assert world.errors[-1] == [ErrorCode.NONE, NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE]
    assert len(consumer.received) == 10


def test_a_member_that_does_not_fetch_from_it_is_not_told() -> None:
    world = Watching()
    consumer = world.consumer()
    world.grow()
    consumer.fetch(wait=0.01)
    world.advance(1)
    assert told(world) == 0
    assert consumer.heartbeat() is ErrorCode.NONE


def test_a_topic_that_is_as_it_was_or_new_tells_nobody() -> None:
    world = Watching()
    consumer = world.consumer()
    consumer.fetch(wait=0.01)
    world.advance(1)
    world.grow(2)
    world.do(world.cluster.topics_changed(EU, {}, world.now))
    world.do(world.cluster.topics_changed(US, {}, world.now))
    world.grow(2)
    consumer.fetch(wait=0.01)
    world.advance(2)
    assert told(world) == 0
    assert consumer.heartbeat() is ErrorCode.NONE


def test_a_member_that_does_not_join_again_by_itself_is_told_once() -> None:
    """librdkafka then looks for a leader, but does not notice new partitions."""
    world = Watching()
    consumer = world.consumer()
    consumer.fetch()
    world.grow()
    assert consumer.heartbeat() is ErrorCode.NONE
    world.advance(OUTDATED_GRACE)
    assert consumer.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert consumer.heartbeat() is ErrorCode.NONE
    assert consumer.join().error is ErrorCode.NONE
    assert consumer.heartbeat() is ErrorCode.NONE


def test_one_that_does_is_left_alone() -> None:
    world = Watching()
    consumer = world.consumer()
    consumer.fetch()
    world.grow()
    assert consumer.join().error is ErrorCode.NONE
    world.advance(OUTDATED_GRACE + 1)
    assert consumer.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize("members", [1, 3])
def test_nothing_is_lost_or_comes_twice(members: int) -> None:
    world = Watching()
    consumers: list[Consumer] = [world.consumer() for _ in range(members)]
    for count in (3, 4, 5):
        for each in consumers:
            each.fetch(wait=30.0)
        world.produce(0, 10)
        world.produce(2, 10)
        world.grow(count)
        for each in consumers:
            if not each.is_parked:
                each.fetch(wait=0.01)
        world.advance(31)
        for each in consumers:
            each.commit()
            assert each.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    values = [value for each in consumers for _, _, value in each.received]
    assert len(values) == len(set(values)) == 60
