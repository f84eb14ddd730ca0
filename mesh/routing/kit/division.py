"""A request that was divided among leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.routing.kit.union_view import UnionView
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree


@dataclass(frozen=True, slots=True)
class RequestPiece:
    """The part of a request for one leaf.

    request: in the leaf's names. client_request: in the client's names. topics: the client's names of the leaf's
    topics, by the leaf's names.
    """

    request: Tree
    client_request: Tree
    topics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Division:
    """A divided request: the part of each leaf, and the answer to the rest.

    local_answer: the answer, in the client's names, to the elements that belong to no leaf; None if there are none.
    """

    api_key: ApiKey
    version: int
    request: Tree
    union: UnionView
    pieces: Mapping[LeafNumber, RequestPiece]
    local_answer: Tree | None
