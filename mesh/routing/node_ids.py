"""The node ids that clients see: the number of a leaf and, in the low 20 bits, the id that the node has in its cluster.

A leaf number has the id of the first route in its low five bits, that of the second in the next five. So the nodes of
leaf 0 keep their ids, a new route moves nobody's, and neither does a router with id 0 that is put behind a route.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mesh.routing.names import LeafNumber

DEPTH: Final = 2
"""Routes of a path at most."""
_ROUTE_BITS: Final = 5
HIGHEST_ROUTE_ID: Final = (1 << _ROUTE_BITS) - 1
LEAF_BITS: Final = DEPTH * _ROUTE_BITS
"""Of a leaf number; above the 20 of the node they leave an id positive."""
NODE_BITS: Final = 20


class NodeIdTooLarge(ValueError):
    """A node id for which there is no room beside the number of its leaf."""


def leaf_number(ids: Sequence[int]) -> LeafNumber:
    """ids: of the routes of a path. Raises ValueError for too many of them, or one that is too large."""
    if len(ids) > DEPTH or not all(0 <= each <= HIGHEST_ROUTE_ID for each in ids):
        raise ValueError(f"route ids {list(ids)}: at most {DEPTH}, each from 0 to {HIGHEST_ROUTE_ID}")
    return LeafNumber(sum(each << level * _ROUTE_BITS for level, each in enumerate(ids)))


class NodeIds:
    """The node ids of a graph, as clients see them and as they are. leaves: all of the graph."""

    def __init__(self, leaves: Iterable[LeafNumber]) -> None:
        self._is_identity = set(leaves) == {LeafNumber(0)}

    def virtual(self, leaf: LeafNumber, node: int) -> int:
        """The id that clients see. One below 0 means no node, and stays. Where leaf 0 is the only one, any id may be;
        else raises NodeIdTooLarge."""
        if node < 0 or self._is_identity:
            return node
        if node >> NODE_BITS:
            raise NodeIdTooLarge(f"node id {node}: clusters behind one address have ids below {1 << NODE_BITS}")
        return leaf << NODE_BITS | node

    def real(self, node: int) -> tuple[LeafNumber, int]:
        """The leaf of an id that clients see, which may be none of the graph's, and the id there. One below 0 is that
        of leaf 0."""
        if node < 0 or self._is_identity:
            return LeafNumber(0), node
        return LeafNumber(node >> NODE_BITS), node & (1 << NODE_BITS) - 1
