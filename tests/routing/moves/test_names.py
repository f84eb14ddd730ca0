"""The names of moved topics that clients see, and the clusters that get requests about them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from mesh.routing.concatenated import epoch_offset_after
from mesh.routing.moves.move import Location, Move, Side
from mesh.routing.moves.names import MovedNames
from mesh.routing.names import LeafNumber
from mesh.routing.union import Owner
from tests.routing.unions import RENAMED, union_of

EU, US = LeafNumber(0), LeafNumber(1)
GOING = Move("orders", UUID(int=7), 3, Location("eu", "orders"), Location("us", "orders"))
AWAY = replace(GOING, at=Side.AWAY, is_copying=False, ends=(1, 2, 3), cuts=1)
BACK = replace(AWAY, at=Side.HOME, cuts=2)


def names(*moves: Move) -> MovedNames:
    return MovedNames(union_of(RENAMED), moves)


def test_while_it_is_copied_nothing_changes_but_that_the_copy_is_hidden() -> None:
    found = names(GOING)
    assert found.owner("orders") == Owner(EU, "orders")
    assert found.owner("us.orders") is None
    assert found.owner("us.other") == Owner(US, "other")
    assert found.client_names(EU, ["orders", "x"]) == {"orders": "orders", "x": "x"}
    assert found.client_names(US, ["orders", "x"]) == {"x": "us.x"}
    assert not found.concatenated
    assert not found.concatenated.is_moved_from(EU)


def test_it_keeps_its_name_and_its_id_where_it_has_gone() -> None:
    found = names(AWAY)
    assert found.owner("orders") is None, "it is known as a part"
    topic = found.concatenated.named("orders")
    assert topic is not None
    assert (topic.id, topic.width, topic.has_moved) == (AWAY.id, 3, True)
    assert [(part.leaf, part.topic) for part in topic.parts] == [(US, "orders")]
    assert found.client_name(EU, "orders") is None
    assert found.client_name(US, "orders") == "orders"
    assert found.owner("us.orders") is None
    assert found.concatenated.is_moved_from(EU)
    assert not found.concatenated.is_moved_from(US)
    assert found.path_to("orders") == []


def test_it_keeps_its_id_when_it_is_back() -> None:
    found = names(BACK)
    part = found.concatenated.part(EU, "orders")
    assert part is not None
    assert part.id == AWAY.id
    assert part.epoch_offset == epoch_offset_after(2) > epoch_offset_after(1) > 0
    assert found.client_name(US, "orders") is None
    assert found.owner("us.orders") is None
    assert found.concatenated.is_moved_from(US)


def test_a_move_over_a_route_that_was_removed_hides_the_topic() -> None:
    """No client may write at its former cluster."""
    found = names(replace(AWAY, away=Location("gone", "orders")))
    assert found.owner("orders") is None
    assert found.concatenated.named("orders") is None
    assert found.client_name(EU, "orders") is None


def test_all_else_is_the_unions() -> None:
    union, found = union_of(RENAMED), names(AWAY)
    assert found.leaves == union.leaves
    assert found.default == union.default
    assert found.group_home("us-x") == union.group_home("us-x") == US
    assert found.transaction_home("us-x") == US
    assert found.path_to("us.x") == union.path_to("us.x")
    assert found.renames(US)
    assert not names(AWAY).renames(EU)
