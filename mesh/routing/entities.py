"""Translates names, ids and node ids in the messages of a connection that leads to one leaf of a union."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol
from uuid import UUID

from mesh.routing.concatenated import Concatenations, Part, PartsAtLeaf
from mesh.routing.kit.embedded import renamed_assignment, renamed_subscription, to_client_names, to_home_names
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.routing.union import Owner
from mesh.wire.addresses import NodeAddresses
from mesh.wire.entities import Unchanged
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer


class UnionNames(Protocol):
    """The names of a union: the leaf of each topic, group and transaction, and its name there.
    `mesh.routing.union.Union` implements it."""

    @property
    def concatenated(self) -> Concatenations: ...

    def owner(self, topic: str) -> Owner | None:
        """Returns the owner of a topic; None if it has none, or is concatenated."""

    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        """Returns the clients' name of a topic of a leaf, or of the concatenated topic that it is a part of. None:
        clients do not see it."""

    def client_names(self, leaf: LeafNumber, topics: Iterable[str]) -> Mapping[str, str]:
        """Returns the clients' names of these topics of a leaf, like `client_name`, without the topics that clients do
        not see."""

    def group_home(self, group_id: str) -> LeafNumber: ...

    def transaction_home(self, transactional_id: str) -> LeafNumber: ...

    def renames(self, leaf: LeafNumber) -> bool:
        """Returns True if clients may know a topic of this leaf by another name than its cluster's."""


class Elsewhere(Exception):
    """Raised if a request names something that does not belong to the leaf of its connection."""


class Hidden(Exception):
    """Raised if an answer contains something that clients may not see."""


class ToLeaf(Unchanged):
    """Translates a request into the names of one leaf. Every method raises `Elsewhere` for something that belongs to
    another leaf."""

    __slots__ = ("_ids", "_leaf", "_names", "_renames")

    def __init__(self, leaf: LeafNumber, ids: NodeIds, names: UnionNames) -> None:
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
            raise Elsewhere  # the expression matches clients' names, not those of the cluster
        return pattern

    def group(self, group_id: str) -> str:
        self._check_here(self._names.group_home(group_id))
        return group_id

    def transactional_id(self, transactional_id: str) -> str:
        self._check_here(self._names.transaction_home(transactional_id))
        return transactional_id

    def subscription(self, subscription: memoryview) -> Buffer:
        return renamed_subscription(subscription, to_home_names(self._own_topic)) if self._renames else subscription

    def assignment(self, assignment: memoryview) -> Buffer:
        return renamed_assignment(assignment, to_home_names(self._own_topic)) if self._renames else assignment

    def _own_topic(self, name: str) -> str | None:
        owner = self._names.owner(name)
        return None if owner is None or owner.leaf != self._leaf else owner.topic

    def _check_here(self, leaf: LeafNumber) -> None:
        if leaf != self._leaf:
            raise Elsewhere


class ToLeafWithParts(ToLeaf):
    """Translates a request for a leaf that has parts of concatenated topics. Raises `Elsewhere` for partitions of other
    parts."""

    __slots__ = ("_part", "_parts")

    def __init__(self, leaf: LeafNumber, ids: NodeIds, names: UnionNames, parts: PartsAtLeaf) -> None:
        super().__init__(leaf, ids, names)
        self._parts: Final = parts
        self._part: Part | None = None

    def topic(self, name: str) -> str:
        self._part = self._parts.by_client_name(name)
        return super().topic(name)

    def topic_id(self, topic_id: UUID) -> UUID:
        self._part = self._parts.by_client_id(topic_id)
        if self._part is None:
            if self._parts.is_concatenated(topic_id):
                raise Elsewhere
            return topic_id  # the cluster itself refuses an id that it does not have
        if (known := self._parts.id_of(self._part)) is None:
            raise Elsewhere
        return known

    def partition(self, partition: int) -> int:
        if self._part is None:
            return partition
        if (known := self._part.to_leaf_partition(partition)) is None:
            raise Elsewhere
        return known

    def leader_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_leaf_epoch(epoch)

    def record_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_leaf_record_epoch(epoch)

    def _own_topic(self, name: str) -> str | None:
        part = self._parts.by_client_name(name)
        return super()._own_topic(name) if part is None else part.topic


class FromLeaf(Unchanged):
    """Translates an answer of one leaf into clients' names. Raises `Hidden` for topics, groups and transactions that
    clients do not see.

    addresses: where clients reach a node, by its id in its cluster. producer: translates a producer id for clients.
    """

    __slots__ = ("_addresses", "_ids", "_leaf", "_names", "_producer", "_renames")

    def __init__(
        self,
        leaf: LeafNumber,
        ids: NodeIds,
        names: UnionNames,
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
        shown = self._names.client_name(self._leaf, name)
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
        return renamed_subscription(subscription, to_client_names(self._known_topic)) if self._renames else subscription

    def assignment(self, assignment: memoryview) -> Buffer:
        return renamed_assignment(assignment, to_client_names(self._known_topic)) if self._renames else assignment

    def _known_topic(self, name: str) -> str:
        """Returns the clients' name of a topic, or the name itself if clients do not see the topic: members that
        connect to the cluster directly may subscribe to such topics."""
        return self._names.client_name(self._leaf, name) or name


class FromLeafWithParts(FromLeaf):
    """Translates an answer of a leaf that has parts of concatenated topics. Raises `Hidden` for partitions beyond their
    widths."""

    __slots__ = ("_part", "_parts")

    def __init__(
        self,
        leaf: LeafNumber,
        ids: NodeIds,
        names: UnionNames,
        addresses: NodeAddresses,
        producer: Callable[[int], int] | None,
        parts: PartsAtLeaf,
    ) -> None:
        super().__init__(leaf, ids, names, addresses, producer)
        self._parts: Final = parts
        self._part: Part | None = None

    def topic(self, name: str) -> str:
        self._part = self._parts.by_leaf_name(name)
        return super().topic(name) if self._part is None else self._part.name

    def topic_id(self, topic_id: UUID) -> UUID:
        self._part = self._parts.by_leaf_id(topic_id)
        return topic_id if self._part is None else self._part.id

    def partition(self, partition: int) -> int:
        if self._part is None:
            return partition
        if (shown := self._part.to_client_partition(partition)) is None:
            raise Hidden
        return shown

    def leader_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_client_epoch(epoch)

    def end_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_client_end_epoch(epoch)

    def end_offset(self, offset: int) -> int:
        return offset if self._part is None else self._part.to_client_end_offset(offset)
