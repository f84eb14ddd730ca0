"""The node ids that clients see: the number of a leaf and, in the low 20 bits, the node's id in its cluster.

A leaf number has the id of its first route in the low five bits, and that of the second in the next five. So the nodes
of leaf 0 keep their ids, and a new route changes no other ids. Nor does a router that is put between a route and its
cluster, if its own route there has id 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mesh.routing.names import LeafNumber

DEPTH: Final = 2
"""The most routes in a path."""
_ROUTE_BITS: Final = 5
HIGHEST_ROUTE_ID: Final = (1 << _ROUTE_BITS) - 1
LEAF_BITS: Final = DEPTH * _ROUTE_BITS
"""The number of bits of a leaf number. With the 20 bits of the node, the id stays positive."""
NODE_BITS: Final = 20


class NodeIdTooLarge(ValueError):
    """A node id that leaves no room for the number of its leaf."""


def leaf_number(ids: Sequence[int]) -> LeafNumber:
    """Returns the number of the leaf at the end of a path. ids: the ids of the path's routes. Raises ValueError if
    there are too many, or one is too large."""
    if len(ids) > DEPTH or not all(0 <= each <= HIGHEST_ROUTE_ID for each in ids):
        raise ValueError(f"route ids {list(ids)}: at most {DEPTH}, each from 0 to {HIGHEST_ROUTE_ID}")
    return LeafNumber(sum(each << level * _ROUTE_BITS for level, each in enumerate(ids)))


class NodeIds:
    """Translates between node ids of clusters and those that clients see. leaves: all leaves of the graph."""

    def __init__(self, leaves: Iterable[LeafNumber]) -> None:
        self._is_identity = set(leaves) == {LeafNumber(0)}

    def virtual(self, leaf: LeafNumber, node: int) -> int:
        """Returns the node id that clients see. Ids below 0 mean no node, and stay the same. Raises NodeIdTooLarge
        for an id of more than 20 bits, unless leaf 0 is the only leaf."""
        if node < 0 or self._is_identity:
            return node
        if node >> NODE_BITS:
            raise NodeIdTooLarge(f"node id {node}: clusters behind one address have ids below {1 << NODE_BITS}")
        return leaf << NODE_BITS | node

    def real(self, node: int) -> tuple[LeafNumber, int]:
        """Returns the leaf of a node id that clients use, which may not be in the graph, and the node's id in its
        cluster. Ids below 0 belong to leaf 0."""
        if node < 0 or self._is_identity:
            return LeafNumber(0), node
        return LeafNumber(node >> NODE_BITS), node & (1 << NODE_BITS) - 1
