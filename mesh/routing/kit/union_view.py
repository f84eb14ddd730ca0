"""The interface of a union and its clusters for dividing requests and merging answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from uuid import UUID

from mesh.routing.concatenated import Concatenated, Concatenations, PartsAtLeaf
from mesh.routing.names import LeafNumber


class Owner(Protocol):
    """The one leaf that has a topic, and the topic's name there."""

    @property
    def leaf(self) -> LeafNumber: ...

    @property
    def topic(self) -> str: ...


class UnionView(Protocol):
    """A union as the clients of one virtual cluster see it.

    leaves: in the order of their numbers. default: the home of requests that name nothing. cluster_id: the cluster id
    that clients see.
    """

    @property
    def leaves(self) -> Collection[LeafNumber]: ...

    @property
    def default(self) -> LeafNumber: ...

    @property
    def cluster_id(self) -> str: ...

    def topics(self) -> Collection[str]:
        """Returns the clients' names of all visible topics, as far as known."""

    @property
    def concatenated(self) -> Concatenations: ...

    def parts_at(self, leaf: LeafNumber, /) -> PartsAtLeaf:
        """Returns the parts of concatenated topics that a leaf has."""

    def lacks_part(self, topic: Concatenated, leaf: LeafNumber, /) -> bool:
        """Returns True if a leaf has reported its topics, and its part of a concatenated topic is missing."""

    def owner(self, topic: str, /) -> Owner | None:
        """Returns the owner of a topic that clients name. None: the topic does not exist and cannot be created, or it
        is concatenated."""

    def client_name(self, leaf: LeafNumber, topic: str, /) -> str | None:
        """Returns the clients' name of a topic of a leaf, or of the concatenated topic that it is a part of. None: it
        is hidden."""

    def renames(self, leaf: LeafNumber, /) -> bool:
        """Returns True if clients may know a topic of this leaf by another name."""

    def leaf_of_topic_id(self, topic_id: UUID, /) -> LeafNumber | None:
        """Returns the leaf of a topic id. None: no known topic that clients see has the id, or a concatenated topic has
        it."""

    def group_home(self, group_id: str, /) -> LeafNumber: ...

    def transaction_home(self, transactional_id: str, /) -> LeafNumber: ...

    def virtual_node(self, leaf: LeafNumber, node: int, /) -> int:
        """Returns the id of a node for clients."""

    def real_node(self, node: int, /) -> tuple[LeafNumber, int]:
        """Returns the leaf of a node id that clients use, and the node's id there. The leaf may not be in this
        union."""
