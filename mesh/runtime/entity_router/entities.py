"""The union of a router and its leaves, as the code needs them that divides requests and merges responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

from mesh.routing.concatenated import Concatenated, Concatenations, PartsAtLeaf
from mesh.routing.names import LeafNumber
from mesh.routing.union import Owner
from mesh.runtime.entity_router.leaves import Leaves
from mesh.runtime.entity_router.metadata import RouterMetadata
from mesh.security.rules import Access, Operation, ResourceType

_METADATA_VERSION: Final = 9
"""The version of Metadata for the mesh's own requests, without topic ids."""


class RouterEntities:
    """The entities of a router. Implements `mesh.routing.kit.union_view.UnionView`, and
    `mesh.wire.addresses.NodeAddresses` for the node ids that clients see. access: the permissions of the client that is
    to see the topics; None for all topics."""

    def __init__(self, leaves: Leaves, metadata: RouterMetadata, access: Access | None = None) -> None:
        self._leaves: Final = leaves
        self._metadata: Final = metadata
        self._access: Final = access

    @property
    def cluster_id(self) -> str:
        return self._metadata.cluster_id

    def seen_with(self, access: Access) -> RouterEntities:
        """The entities that a client with these permissions sees."""
        return RouterEntities(self._leaves, self._metadata, access)

    @property
    def leaves(self) -> Collection[LeafNumber]:
        return self._leaves.numbers

    @property
    def default(self) -> LeafNumber:
        return self._leaves.default.number

    def topics(self) -> Collection[str]:
        topics, access = self._metadata.topics(), self._access
        if access is None:
            return topics
        return [each for each in topics if access.allows(Operation.DESCRIBE, ResourceType.TOPIC, each)]

    @property
    def concatenated(self) -> Concatenations:
        return self._leaves.names.concatenated

    def parts_at(self, leaf: LeafNumber, /) -> PartsAtLeaf:
        return self._leaves.parts_at(leaf)

    def lacks_part(self, topic: Concatenated, leaf: LeafNumber, /) -> bool:
        part = topic.part_at_leaf(leaf)
        return part is None or self._metadata.lacks(part)

    def concatenated_ids(self, topics: Iterable[str]) -> list[UUID]:
        """The ids of those of these topics that are concatenated."""
        found = map(self.concatenated.named, topics) if self.concatenated else ()
        return [each.id for each in found if each is not None]

    def is_id_known(self, topic_id: UUID) -> bool:
        """True if the places of everything with this id are known. A part of a concatenated topic has an id that
        clients do not see."""
        ids = self._leaves.part_ids
        if (concatenated := self.concatenated.with_id(topic_id)) is not None:
            return all(ids.newest(part.leaf, part.topic) is not None for part in concatenated.parts)
        if self.leaf_of_topic_id(topic_id) is not None:
            return True
        return bool(self.concatenated) and any(ids.topic(leaf, topic_id) is not None for leaf in self.leaves)

    def leaf_of_partition(self, topic: str, partition: int) -> LeafNumber | None:
        """The leaf that has a partition, as clients number it; None if there is none."""
        if (concatenated := self.concatenated.named(topic)) is not None:
            part = concatenated.part_with_partition(partition)
            return None if part is None else part.leaf
        owner = self.owner(topic)
        return None if owner is None else owner.leaf

    def owner(self, topic: str, /) -> Owner | None:
        return self._leaves.names.owner(topic)

    def client_name(self, leaf: LeafNumber, topic: str, /) -> str | None:
        return self._leaves.names.client_name(leaf, topic)

    def renames(self, leaf: LeafNumber, /) -> bool:
        return self._leaves.names.renames(leaf)

    def leaf_of_topic_id(self, topic_id: UUID, /) -> LeafNumber | None:
        return self._metadata.leaf_of_topic_id(topic_id)

    async def refresh_topics(self) -> None:
        """Asks all clusters for their topics."""
        await self._metadata.answer({"topics": None}, _METADATA_VERSION)

    @property
    def are_all_reported(self) -> bool:
        """True if every cluster has ever reported its topics."""
        return self._metadata.are_all_reported

    def topic_of_id(self, topic_id: UUID) -> str | None:
        """The name of a topic as clients see it; None if no visible topic is known to have this id."""
        return self._metadata.topic_of_id(topic_id)

    def group_home(self, group_id: str, /) -> LeafNumber:
        return self._leaves.names.group_home(group_id)

    def transaction_home(self, transactional_id: str, /) -> LeafNumber:
        return self._leaves.names.transaction_home(transactional_id)

    def virtual_node(self, leaf: LeafNumber, node: int, /) -> int:
        return self._leaves.ids.virtual(leaf, node)

    def real_node(self, node: int, /) -> tuple[LeafNumber, int]:
        return self._leaves.ids.real(node)

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        leaf, known = self._leaves.ids.real(node)
        return self._leaves.by_number[leaf].nodes.address_of(known, host, port)
