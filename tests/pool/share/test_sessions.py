"""Share sessions: one for each member and node."""

from __future__ import annotations

import pytest

from mesh.pool.share.requests import ENDING
from mesh.wire.errors import ErrorCode
from tests.pool.harness import World, source
from tests.pool.share_member import ACCEPT, ShareMember, batches_of


@pytest.fixture
def world() -> World:
    return World()


def at_two_nodes(world: World, name: str = "s") -> tuple[ShareMember, ShareMember]:
    """A member that fetches partition 0 from one node and partition 1 from another."""
    here = ShareMember.joined(world, name)
    there = here.at_node(3)
    here.fetch([0], wait=0.0)
    there.fetch([1], wait=0.0)
    world.assign_all()
    return here, there


def test_a_member_has_a_session_with_each_node(world: World) -> None:
    here, there = at_two_nodes(world)
    world.produce(0, 5)
    world.produce(1, 5)
    here.fetch()
    there.fetch()
    assert (here.held(0), here.held(1)) == (list(range(5)), [])
    assert (there.held(0), there.held(1)) == ([], list(range(5)))
    assert there.say(ACCEPT, 1) is ErrorCode.NONE
    assert here.say(ACCEPT, 0) is ErrorCode.NONE
    assert {world.stored[source(0)], world.stored[source(1)]} == {5}
    world.check()


def test_two_fetches_of_a_member_wait_at_once(world: World) -> None:
    here, there = at_two_nodes(world)
    here.ask(wait=5.0)
    there.ask(wait=5.0)
    assert here.is_parked and there.is_parked
    world.produce(1, 5)
    there.take()
    assert here.is_parked, "nothing has come for it"
    world.produce(0, 5)
    here.take()
    assert here.held(0) == there.held(1)
    world.check()


@pytest.mark.parametrize("how", ["its connection is lost", "it says so", "it says so by a fetch"])
def test_a_session_that_ends_gives_back_only_what_came_by_it(world: World, how: str) -> None:
    here, there = at_two_nodes(world)
    other = ShareMember.joined(world, "other")
    world.produce(0, 5)
    world.produce(1, 5)
    here.fetch()
    there.fetch()
    match how:
        case "its connection is lost":
            there.lose_session()
        case "it says so":
            assert there.end().error is ErrorCode.NONE
        case _:
            assert there.fetch(epoch=ENDING).error is ErrorCode.NONE
    other.fetch()
    assert (other.held(0), other.held(1)) == ([], list(range(5)))
    assert here.say(ACCEPT, 0) is ErrorCode.NONE, "it has that still"
    world.check()


def test_a_member_without_a_group_lives_as_long_as_its_last_session(world: World) -> None:
    here = ShareMember(world, "s", world.connect(), world.connect())
    there = here.at_node(3)
    here.fetch([0], wait=0.0)
    there.fetch([1], wait=0.0)
    here.end()
    assert list(world.pool.members.by_id) == [here.member_id]
    there.end()
    assert not world.pool.members.by_id
    for connection in (here.connection, here.coordinator, there.connection):
        world.disconnect(connection)
    world.check_empty()


def test_one_that_is_opened_again_gives_back_what_its_own_node_gave(world: World) -> None:
    here, there = at_two_nodes(world)
    world.produce(0, 5)
    world.produce(1, 5)
    here.fetch()
    there.fetch()
    again = here.at_node(3)
    again.fetch([1])
    assert again.acquired == {(1, offset): 2 for offset in range(5)}, "delivered once more"
    assert here.say(ACCEPT, 0) is ErrorCode.NONE
    again.fetch(acknowledge={1: batches_of(ACCEPT, again.held(1))}, wait=0.0)
    assert world.stored[source(1)] == 5


def test_what_is_fetched_from_another_node_now_belongs_to_that_session(world: World) -> None:
    here, there = at_two_nodes(world)
    world.produce(1, 5)
    there.fetch()
    there.ask(forgotten=[1], wait=0.0)
    there.take()
    moved = here.at_node(4)
    moved.fetch([1], wait=0.0)
    there.lose_session()
    world.check()
    moved.acquired.update({(1, offset): 1 for offset in range(5)})
    assert moved.say(ACCEPT, 1) is ErrorCode.NONE, "its member lives, and has them"
