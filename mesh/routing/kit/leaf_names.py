"""Translates names and ids between clients and one leaf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from mesh.routing.concatenated import Part
from mesh.routing.kit.translation import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, node_in
from mesh.routing.kit.union_view import UnionView
from mesh.routing.names import LeafNumber
from mesh.wire.trees import Tree


class LeafNames:
    """Translates clients' names and ids into those of a leaf. topics: the clients' names of topics translated so far,
    by the leaf's names."""

    def __init__(self, union: UnionView, leaf: LeafNumber) -> None:
        self._union, self._leaf = union, leaf
        self._parts: Final = union.parts_at(leaf)
        self._part: Part | None = None
        self.topics: Final[dict[str, str]] = {}

    @property
    def has_parts(self) -> bool:
        return bool(self._parts)

    def topic_begins(self) -> None:
        self._part = None

    def topic(self, name: str) -> str | None:
        if (part := self._parts.by_client_name(name)) is not None:
            self._part = part
            return part.topic
        owner = self._union.owner(name)
        if owner is None or owner.leaf != self._leaf:
            return None
        self.topics[owner.topic] = name
        return owner.topic

    def topic_id(self, topic_id: UUID) -> UUID | None:
        if (part := self._parts.by_client_id(topic_id)) is not None:
            self._part = part
            return self._parts.id_of(part)
        return None if self._parts.is_concatenated(topic_id) else topic_id

    def partition(self, partition: int) -> int | None:
        return partition if self._part is None else self._part.to_leaf_partition(partition)

    def leader_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_leaf_epoch(epoch)

    def record_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_leaf_record_epoch(epoch)

    def end_epoch(self, epoch: int) -> int:
        return epoch  # only answers have this field

    def end_offset(self, offset: int) -> int:
        return offset

    def node(self, node: int) -> int:
        return self._union.real_node(node)[1]

    def cluster_id(self, cluster_id: str) -> str | None:
        return None  # clients know only the union's cluster id

    def resource(self, resource_type: int, name: str) -> str | None:
        if resource_type == TOPIC:
            return self.topic(name)
        if resource_type in (BROKER, BROKER_LOGGER) and (node := node_in(name)) is not None:
            return str(self.node(node))
        return name


class ClientNames:
    """Translates names and ids of a leaf into those of clients. topics: the clients' names of topics in the request, by
    the leaf's names."""

    def __init__(self, union: UnionView, leaf: LeafNumber, topics: Mapping[str, str]) -> None:
        self._union, self._leaf = union, leaf
        self._topics = topics
        self._parts: Final = union.parts_at(leaf)
        self._part: Part | None = None

    @property
    def has_parts(self) -> bool:
        return bool(self._parts)

    def topic_begins(self) -> None:
        self._part = None

    def topic(self, name: str) -> str | None:
        if (part := self._parts.by_leaf_name(name)) is not None:
            self._part = part
            return part.name
        return self._topics.get(name) or self._union.client_name(self._leaf, name)

    def topic_id(self, topic_id: UUID) -> UUID:
        part = self._part = self._parts.by_leaf_id(topic_id) or self._part
        return topic_id if part is None else part.id

    def partition(self, partition: int) -> int | None:
        return partition if self._part is None else self._part.to_client_partition(partition)

    def leader_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_client_epoch(epoch)

    def record_epoch(self, epoch: int) -> int:
        return epoch  # only requests have this field

    def end_epoch(self, epoch: int) -> int:
        return epoch if self._part is None else self._part.to_client_end_epoch(epoch)

    def end_offset(self, offset: int) -> int:
        return offset if self._part is None else self._part.to_client_end_offset(offset)

    def node(self, node: int) -> int:
        return self._union.virtual_node(self._leaf, node)

    def cluster_id(self, cluster_id: str) -> str | None:
        return self._union.cluster_id

    def end_of_part(self, cursor: Tree | None) -> Tree | None:
        """Returns the cursor for the next page if a leaf's page ended beyond the width of a part; None if it did
        not."""
        part = None if cursor is None else self._parts.by_leaf_name(cursor["topic_name"])
        if cursor is None or part is None or part.to_client_partition(cursor["partition_index"]) is not None:
            return None
        return {"topic_name": part.name, "partition_index": part.end}

    def resource(self, resource_type: int, name: str) -> str | None:
        """Returns the clients' name of a resource; None if it is not for this leaf to report."""
        if resource_type == TOPIC:
            return self.topic(name)
        if resource_type in (BROKER, BROKER_LOGGER):
            node = node_in(name)
            return name if node is None else str(self.node(node))
        if resource_type == GROUP:
            return name if self._union.group_home(name) == self._leaf else None
        if resource_type == CLIENT_METRICS:
            return name if self._union.default == self._leaf else None
        return name
