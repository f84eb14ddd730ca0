"""What taking requests apart and putting answers together has to know of a union and its clusters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from uuid import UUID

from mesh.routing.names import LeafNumber


class Owner(Protocol):
    """The one leaf that has a topic, and what it is called there."""

    @property
    def leaf(self) -> LeafNumber: ...

    @property
    def topic(self) -> str: ...


class Entities(Protocol):
    """A union as the clients of one virtual cluster see it.

    leaves: in the order of their numbers. default: the home of what has no name. cluster_id: the union's own, which
    clients are told.
    """

    @property
    def leaves(self) -> Collection[LeafNumber]: ...

    @property
    def default(self) -> LeafNumber: ...

    @property
    def cluster_id(self) -> str: ...

    def topics(self) -> Collection[str]:
        """What clients call all topics that are shown, as far as they are known."""

    def owner(self, topic: str, /) -> Owner | None:
        """Of what clients call so. None: there is no such topic, and it cannot be created."""

    def shown(self, leaf: LeafNumber, topic: str, /) -> str | None:
        """What clients call a topic of a leaf. None: it is hidden."""

    def renames(self, leaf: LeafNumber, /) -> bool:
        """Whether clients may call a topic of this leaf otherwise."""

    def leaf_of_topic_id(self, topic_id: UUID, /) -> LeafNumber | None:
        """None: no topic that is shown has this id, as far as is known."""

    def group_home(self, group_id: str, /) -> LeafNumber: ...

    def transaction_home(self, transactional_id: str, /) -> LeafNumber: ...

    def virtual_node(self, leaf: LeafNumber, node: int, /) -> int:
        """The id of a node that clients are told."""

    def real_node(self, node: int, /) -> tuple[LeafNumber, int]:
        """The leaf of a node that clients name, which may be none of this union, and its id there."""
