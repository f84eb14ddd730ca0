"""A request that has been taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mesh.routing.kit.entities import Entities
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree


@dataclass(frozen=True, slots=True)
class Piece:
    """What one leaf is asked.

    request: in the names of the leaf. asked: the same in those of the client. topics: what the client has called the
    topics of the leaf.
    """

    request: Tree
    asked: Tree
    topics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Division:
    """What each leaf is asked, and what is answered without any.

    answered: an answer in the names of the client, to what no leaf is asked about; None if there is nothing of it.
    """

    api_key: ApiKey
    version: int
    request: Tree
    union: Entities
    pieces: Mapping[LeafNumber, Piece]
    answered: Tree | None

    def with_answered(self, request: Tree, answered: Tree) -> Division:
        """The same of a larger request, of which the rest is answered so."""
        ours = self.answered or {}
        both = {name: [*ours.get(name, ()), *elements] for name, elements in answered.items()}
        return replace(self, request=request, answered=ours | both)
