"""A request that has been taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.routing.kit.entities import Entities
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a request that one leaf is asked.

    request: in the names of the leaf. asked: the same in those of the client. topics: what the client has called the
    topics of the leaf.
    """

    request: Tree
    asked: Tree
    topics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Division:
    """A divided request: the part of each leaf, and the answer to the rest.

    answered: an answer in the names of the client, to what no leaf is asked about; None if there is nothing of it.
    """

    api_key: ApiKey
    version: int
    request: Tree
    union: Entities
    pieces: Mapping[LeafNumber, Piece]
    answered: Tree | None
