"""Finds the clusters of the topics that members subscribe to, and translates assignments between them and clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from mesh.routing.concatenated import Concatenations, PartsAtLeaf
from mesh.routing.kit.union_view import Owner
from mesh.routing.names import LeafNumber
from mesh.wire.trees import Tree

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id, both as clients know them."""


class TopicOwners(Protocol):
    """The part of `mesh.routing.kit.union_view.UnionView` that `Places` needs."""

    @property
    def concatenated(self) -> Concatenations: ...

    def parts_at(self, leaf: LeafNumber, /) -> PartsAtLeaf: ...

    def owner(self, topic: str, /) -> Owner | None: ...

    def leaf_of_topic_id(self, topic_id: UUID, /) -> LeafNumber | None: ...


class Places:
    """Finds the leaves of topics, and translates assigned partitions between leaves and clients."""

    def __init__(self, union: TopicOwners) -> None:
        self._union: Final = union

    def of_topic(self, name: str) -> Sequence[tuple[LeafNumber, str]]:
        """Returns each leaf that has a topic, with the topic's name there."""
        if (concatenated := self._union.concatenated.named(name)) is not None:
            return [(part.leaf, part.topic) for part in concatenated.parts]
        owner = self._union.owner(name)
        return [] if owner is None else [(owner.leaf, owner.topic)]

    def to_leaf(self, leaf: LeafNumber, partitions: Iterable[Tree]) -> list[Tree]:
        """Returns those partitions that belong to a leaf, with the leaf's topic ids and partition numbers."""
        parts = self._union.parts_at(leaf)
        found = []
        for topic in partitions:
            id = topic["topic_id"]
            if (part := parts.by_client_id(id)) is None:
                if self._union.leaf_of_topic_id(id) == leaf:
                    found.append(topic)
                continue
            own = [one for each in topic["partitions"] if (one := part.to_leaf_partition(each)) is not None]
            if own and (known := parts.id_of(part)) is not None:
                found.append({"topic_id": known, "partitions": own})
        return found

    def has_some(self, leaf: LeafNumber, assignment: Assignment) -> bool:
        """Returns True if any of these partitions belongs to a leaf."""
        parts = self._union.parts_at(leaf)
        for id, partitions in assignment.items():
            part = parts.by_client_id(id)
            if part is not None and any(part.to_leaf_partition(each) is not None for each in partitions):
                return True
            if part is None and partitions and self._union.leaf_of_topic_id(id) == leaf:
                return True
        return False

    def to_clients(self, leaf: LeafNumber, partitions: Iterable[Tree]) -> Assignment:
        """Translates the assignment by a leaf into clients' topic ids and partition numbers."""
        parts = self._union.parts_at(leaf)
        assigned: dict[UUID, frozenset[int]] = {}
        for topic in partitions:
            id, numbers = topic["topic_id"], topic["partitions"]
            if (part := parts.by_leaf_id(id)) is None:
                assigned[id] = frozenset(numbers)
            else:
                assigned[part.id] = frozenset(
                    one for each in numbers if (one := part.to_client_partition(each)) is not None
                )
        return assigned
