"""What the entities in a message are called on the other side of a connection that leads to one leaf of a union."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from mesh.routing.kit.embedded import at_home, from_home, renamed_assignment, renamed_subscription
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.routing.union import Owner
from mesh.wire.addresses import NodeAddresses
from mesh.wire.entities import Unchanged
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer


class Names(Protocol):
    """Which leaf something belongs to, and what it is called there. Implemented by `mesh.routing.union.Union`."""

    def owner(self, topic: str) -> Owner | None: ...

    def shown(self, leaf: LeafNumber, topic: str) -> str | None:
        """What clients call a topic of a leaf; None: they do not see it."""

    def all_shown(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        """The same of several; those that they do not see are left out."""

    def group_home(self, group_id: str) -> LeafNumber: ...

    def transaction_home(self, transactional_id: str) -> LeafNumber: ...

    def renames(self, leaf: LeafNumber) -> bool:
        """Whether clients may call a topic of this leaf otherwise than its cluster does."""


class Elsewhere(Exception):
    """Something in a request does not belong to the leaf that its connection leads to."""


class Hidden(Exception):
    """Something in an answer is not for clients."""


class ToLeaf(Unchanged):
    """Of a request: as the cluster calls it. Every method raises `Elsewhere` for what is not this leaf's."""

    __slots__ = ("_ids", "_leaf", "_names", "_renames")

    def __init__(self, leaf: LeafNumber, ids: NodeIds, names: Names) -> None:
        self._leaf: Final = leaf
        self._ids: Final = ids
        self._names: Final = names
        self._renames: Final = names.renames(leaf)

    def node(self, node: int) -> int:
        leaf, known = self._ids.real(node)
        self._check_here(leaf)
        return known

    def topic(self, name: str) -> str:
        if (topic := self._own_topic(name)) is None:
            raise Elsewhere
        return topic

    def topic_pattern(self, pattern: str) -> str:
        if self._renames and pattern:
            raise Elsewhere  # it is about other names than the cluster's
        return pattern

    def group(self, group_id: str) -> str:
        self._check_here(self._names.group_home(group_id))
        return group_id

    def transactional_id(self, transactional_id: str) -> str:
        self._check_here(self._names.transaction_home(transactional_id))
        return transactional_id

    def subscription(self, subscription: memoryview) -> Buffer:
        return renamed_subscription(subscription, at_home(self._own_topic)) if self._renames else subscription

    def assignment(self, assignment: memoryview) -> Buffer:
        return renamed_assignment(assignment, at_home(self._own_topic)) if self._renames else assignment

    def _own_topic(self, name: str) -> str | None:
        owner = self._names.owner(name)
        return None if owner is None or owner.leaf != self._leaf else owner.topic

    def _check_here(self, leaf: LeafNumber) -> None:
        if leaf != self._leaf:
            raise Elsewhere


class FromLeaf(Unchanged):
    """Of an answer: as clients call it. What they do not see raises `Hidden`.

    addresses: of nodes, by the id that their cluster gave them. producer: what clients know a producer id as.
    """

    __slots__ = ("_addresses", "_ids", "_leaf", "_names", "_producer", "_renames")

    def __init__(
        self,
        leaf: LeafNumber,
        ids: NodeIds,
        names: Names,
        addresses: NodeAddresses,
        producer: Callable[[int], int] | None = None,
    ) -> None:
        self._leaf: Final = leaf
        self._ids: Final = ids
        self._names: Final = names
        self._addresses: Final = addresses
        self._renames: Final = names.renames(leaf)
        self._producer: Final = producer

    def node(self, node: int) -> int:
        try:
            return self._ids.virtual(self._leaf, node)
        except NodeIdTooLarge as problem:
            raise ProtocolError("unexpected_response", str(problem)) from None

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return self._addresses.address_of(node, host, port)

    def topic(self, name: str) -> str:
        shown = self._names.shown(self._leaf, name)
        if shown is None:
            raise Hidden
        return shown

    def group(self, group_id: str) -> str:
        if self._names.group_home(group_id) != self._leaf:
            raise Hidden
        return group_id

    def transactional_id(self, transactional_id: str) -> str:
        if self._names.transaction_home(transactional_id) != self._leaf:
            raise Hidden
        return transactional_id

    def producer(self, producer_id: int) -> int:
        return producer_id if self._producer is None else self._producer(producer_id)

    def subscription(self, subscription: memoryview) -> Buffer:
        return renamed_subscription(subscription, from_home(self._known_topic)) if self._renames else subscription

    def assignment(self, assignment: memoryview) -> Buffer:
        return renamed_assignment(assignment, from_home(self._known_topic)) if self._renames else assignment

    def _known_topic(self, name: str) -> str:
        """Members that are at the cluster itself may have others."""
        return self._names.shown(self._leaf, name) or name
