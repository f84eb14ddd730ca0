"""A client that joined again commits offsets from before under its new member id: @platformatic/kafka does."""

from __future__ import annotations

import pytest

from mesh.pool.common.results import CommitResult
from mesh.pool.state.slots import SEQUENCE_BITS, SLOTS
from mesh.wire.errors import ErrorCode
from tests.pool.harness import ORDERS, Consumer, World


def commit(world: World, consumer: Consumer, offset: int) -> ErrorCode:
    ticket = consumer.commit({0: offset})
    return world.answer(ticket, CommitResult).errors[ORDERS, 0]


@pytest.mark.parametrize("earlier", [0, 1], ids=["lower", "higher"])
def test_a_position_of_a_slot_that_is_gone_has_no_effect(earlier: int) -> None:
    """A broker accepts it, and a client gives up after any other answer; the records are delivered again."""
    world = World()
    consumers = [world.consumer("a"), world.consumer("b")]
    gone, member = consumers[earlier], consumers[1 - earlier]
    gone.fetch(partitions=[0])
    world.produce(0, 3)
    position = gone.positions[0]
    gone.leave()
    member.fetch(partitions=[0])
    held = world.pool.members.by_id[member.member_id].in_flight
    assert held == 3
    assert commit(world, member, position) is ErrorCode.NONE
    assert world.pool.members.by_id[member.member_id].in_flight == held
    assert not world.stored


def test_an_offset_that_no_slot_can_have_is_refused() -> None:
    world = World()
    member = world.consumer()
    assert commit(world, member, SLOTS << SEQUENCE_BITS) is ErrorCode.OFFSET_OUT_OF_RANGE
