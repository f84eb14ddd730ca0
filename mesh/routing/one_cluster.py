"""One cluster in the place of a union: all topics, groups and transactions are its own, under their own names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mesh.routing.concatenated import Concatenations
from mesh.routing.graph import Leaf
from mesh.routing.names import LeafNumber, Path
from mesh.routing.union import Owner, path_with_same_name


class OneCluster:
    """The names of one cluster behind a router that chooses by connection. Implements
    `mesh.routing.entities.UnionNames`.

    leaves: the cluster's leaf alone. default: its number.
    """

    def __init__(self, leaf: Leaf) -> None:
        self.leaves: Final = (leaf,)
        self.default: Final = leaf.number
        self.concatenated: Final = Concatenations()
        self._path: Final = leaf.path

    def owner(self, topic: str) -> Owner | None:
        return Owner(self.default, topic)

    def path_to(self, topic: str) -> Sequence[tuple[Path, str]]:
        return path_with_same_name(self._path, topic)

    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        return topic

    def client_names(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        return {topic: topic for topic in topics}

    def group_home(self, id: str) -> LeafNumber:
        return self.default

    def transaction_home(self, id: str) -> LeafNumber:
        return self.default

    def renames(self, leaf: LeafNumber) -> bool:
        return False
