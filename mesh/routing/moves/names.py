"""The names of a union in which topics are moved between leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from mesh.routing.concatenated import Concatenated, Concatenations, Part, epoch_offset_after
from mesh.routing.entities import UnionNames
from mesh.routing.graph import Leaf
from mesh.routing.moves.move import Location, Move
from mesh.routing.names import LeafNumber, Path
from mesh.routing.union import Owner


class AllNames(UnionNames, Protocol):
    """The names of a union, with its leaves and the routes to each topic."""

    @property
    def leaves(self) -> tuple[Leaf, ...]: ...

    @property
    def default(self) -> LeafNumber: ...

    def path_to(self, topic: str) -> Sequence[tuple[Path, str]]: ...


class MovedNames:
    """The names of a union after its moves. Implements `AllNames`.

    A moved topic is like a concatenated one with a single part: it keeps the topic id that clients know, and its part
    is where the topic is now. Its leader epochs rise with each cut. The copy on the other side is hidden.
    """

    def __init__(self, union: AllNames, moves: Iterable[Move]) -> None:
        self._union: Final = union
        moves = tuple(moves)
        numbers = {"/".join(leaf.path): leaf.number for leaf in union.leaves}
        moved = [each for each in moves if each.has_moved]
        here = [one for each in moved if (one := _moved(each, numbers)) is not None]
        hidden = [(numbers.get(each.target.path), each.target.topic) for each in moves]
        hidden += [(numbers.get(each.source.path), each.source.topic) for each in moved]
        self._hidden: Final = {Owner(leaf, topic) for leaf, topic in hidden if leaf is not None}
        self._moved: Final = frozenset(each.topic for each in moved)
        left = (number for each in moved if (number := numbers.get(each.target.path)) is not None)
        self.concatenated: Final = Concatenations((*union.concatenated, *here), left)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return self._union.leaves

    @property
    def default(self) -> LeafNumber:
        return self._union.default

    def owner(self, topic: str) -> Owner | None:
        if topic in self._moved:
            return None
        owner = self._union.owner(topic)
        return None if owner is None or owner in self._hidden else owner

    def path_to(self, topic: str) -> Sequence[tuple[Path, str]]:
        """Returns the routes to a topic; none for a moved topic."""
        return [] if topic in self._moved else self._union.path_to(topic)

    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        return self.client_names(leaf, (topic,)).get(topic)

    def client_names(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        topics = tuple(topics)
        known = self._union.client_names(leaf, topics)
        shown = {
            topic: name
            for topic, name in known.items()
            if name not in self._moved and Owner(leaf, topic) not in self._hidden
        }
        parts = ((topic, self.concatenated.part(leaf, topic)) for topic in topics)
        return shown | {topic: part.name for topic, part in parts if part is not None}

    def group_home(self, group_id: str) -> LeafNumber:
        return self._union.group_home(group_id)

    def transaction_home(self, transactional_id: str) -> LeafNumber:
        return self._union.transaction_home(transactional_id)

    def renames(self, leaf: LeafNumber) -> bool:
        return self._union.renames(leaf) or self.concatenated.renames(leaf)


def _moved(move: Move, numbers: Mapping[str, LeafNumber]) -> Concatenated | None:
    """Returns a moved topic. None: the route to it does not exist any more, and so neither does the topic."""
    location: Location = move.source
    if (leaf := numbers.get(location.path)) is None:
        return None
    part = Part(move.topic, move.id, leaf, location.topic, 0, move.width, epoch_offset_after(move.cuts))
    return Concatenated(move.topic, move.id, (part,), has_moved=True)
