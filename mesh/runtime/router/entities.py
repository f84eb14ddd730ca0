"""A router's union and its leaves, as taking requests apart and putting answers together asks about them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from mesh.routing.names import LeafNumber
from mesh.routing.union import Owner
from mesh.runtime.router.leaves import Leaves
from mesh.runtime.router.metadata import RouterMetadata
from mesh.security.rules import Access, Operation, ResourceType

_METADATA_VERSION: Final = 9
"""Without ids of topics, which nobody needs here."""


class RouterEntities:
    """The entities of a router. Implements `mesh.routing.kit.entities.Entities`, and
    `mesh.wire.addresses.NodeAddresses` by the ids of nodes that clients know. access: of the client that is to see
    them; None: all."""

    def __init__(self, leaves: Leaves, metadata: RouterMetadata, access: Access | None = None) -> None:
        self._leaves: Final = leaves
        self._metadata: Final = metadata
        self._access: Final = access

    @property
    def cluster_id(self) -> str:
        return self._metadata.cluster_id

    def seen_with(self, access: Access) -> RouterEntities:
        """Those that a client sees who may do so much."""
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

    def owner(self, topic: str, /) -> Owner | None:
        return self._leaves.names.owner(topic)

    def shown(self, leaf: LeafNumber, topic: str, /) -> str | None:
        return self._leaves.names.shown(leaf, topic)

    def renames(self, leaf: LeafNumber, /) -> bool:
        return self._leaves.names.renames(leaf)

    def leaf_of_topic_id(self, topic_id: UUID, /) -> LeafNumber | None:
        return self._metadata.leaf_of_topic_id(topic_id)

    async def look_at_topics(self) -> None:
        """Asks all clusters which topics there are now."""
        await self._metadata.answer({"topics": None}, _METADATA_VERSION)

    @property
    def are_all_heard(self) -> bool:
        """Whether every cluster has said at some time which topics it has."""
        return self._metadata.are_all_heard

    def topic_of_id(self, topic_id: UUID) -> str | None:
        """What clients call it; None: no topic that is shown has this id, as far as is known."""
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
