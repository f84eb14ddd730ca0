"""Node ids: none ever changes, and no two nodes have the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import HIGHEST_ROUTE_ID, LEAF_BITS, NodeIds, NodeIdTooLarge, leaf_number

ROUTE_IDS = st.integers(0, HIGHEST_ROUTE_ID)
PATHS = st.lists(ROUTE_IDS, max_size=2)
NODES = st.integers(0, (1 << 20) - 1)


@given(PATHS, PATHS, NODES, NODES)
def test_each_node_of_each_leaf_has_an_id_of_its_own(left: list[int], right: list[int], one: int, other: int) -> None:
    leaves = leaf_number(left), leaf_number(right)
    ids = NodeIds([*leaves, LeafNumber(1)])
    shown = ids.virtual(leaves[0], one), ids.virtual(leaves[1], other)
    assert (shown[0] == shown[1]) is ((leaves[0], one) == (leaves[1], other))
    assert [ids.real(each) for each in shown] == [(leaves[0], one), (leaves[1], other)]
    assert all(0 <= each < 1 << 31 for each in shown)


@given(ROUTE_IDS)
def test_a_router_with_id_0_behind_a_route_moves_nobody(route: int) -> None:
    assert leaf_number([route]) == leaf_number([route, 0]) == route


def test_leaves_of_two_levels() -> None:
    assert leaf_number([]) == 0
    assert leaf_number([3, 1]) == 3 | 1 << 5
    assert leaf_number([31, 31]) == (1 << LEAF_BITS) - 1


@pytest.mark.parametrize("ids", [[32], [-1], [0, 32], [1, 1, 0]])
def test_no_other_route_ids(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="route ids"):
        leaf_number(ids)


@pytest.mark.parametrize("leaf", [0, 1])
def test_a_large_node_id_has_no_room_beside_other_leaves(leaf: int) -> None:
    with pytest.raises(NodeIdTooLarge, match="1048576"):
        NodeIds([LeafNumber(0), LeafNumber(1)]).virtual(LeafNumber(leaf), 1 << 20)


def test_a_large_node_id_has_no_room_beside_a_leaf_number() -> None:
    with pytest.raises(NodeIdTooLarge):
        NodeIds([LeafNumber(1)]).virtual(LeafNumber(1), 1 << 20)


@given(st.integers(-1, (1 << 31) - 1))
def test_leaf_0_alone_is_the_identity(node: int) -> None:
    ids = NodeIds([LeafNumber(0)])
    assert ids.virtual(LeafNumber(0), node) == node
    assert ids.real(node) == (0, node)


@given(PATHS, st.integers(max_value=-1))
def test_no_node_stays_no_node(path: list[int], node: int) -> None:
    ids = NodeIds([LeafNumber(0), LeafNumber(7)])
    assert ids.virtual(leaf_number(path), node) == node
    assert ids.real(node) == (0, node)
