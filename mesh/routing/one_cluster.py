"""One cluster where a union could be: everything is its own, by its own names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mesh.routing.graph import Leaf
from mesh.routing.names import LeafNumber, Path
from mesh.routing.union import Owner, way_to


class OneCluster:
    """A cluster behind a router that chooses by connection. Implements `mesh.routing.entities.Names`.

    leaves: it alone. default: its number.
    """

    def __init__(self, leaf: Leaf) -> None:
        self.leaves: Final = (leaf,)
        self.default: Final = leaf.number
        self._path: Final = leaf.path

    def owner(self, topic: str) -> Owner | None:
        return Owner(self.default, topic)

    def way(self, topic: str) -> Sequence[tuple[Path, str]]:
        return way_to(self._path, topic)

    def shown(self, leaf: LeafNumber, topic: str) -> str | None:
        return topic

    def all_shown(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        return {topic: topic for topic in topics}

    def group_home(self, id: str) -> LeafNumber:
        return self.default

    def transaction_home(self, id: str) -> LeafNumber:
        return self.default

    def renames(self, leaf: LeafNumber) -> bool:
        return False
