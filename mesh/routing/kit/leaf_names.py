"""The names of one leaf for what clients of its union name, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.routing.kit.entities import Entities
from mesh.routing.kit.translation import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, node_in
from mesh.routing.names import LeafNumber


class LeafNames:
    """The names that a leaf has for entities that clients name. topics: by the leaf's name, those that were named."""

    def __init__(self, union: Entities, leaf: LeafNumber) -> None:
        self._union, self._leaf = union, leaf
        self.topics: Final[dict[str, str]] = {}

    def topic(self, name: str) -> str | None:
        owner = self._union.owner(name)
        if owner is None or owner.leaf != self._leaf:
            return None
        self.topics[owner.topic] = name
        return owner.topic

    def node(self, node: int) -> int:
        return self._union.real_node(node)[1]

    def cluster_id(self, cluster_id: str) -> str | None:
        return None  # clients know the union's own

    def resource(self, resource_type: int, name: str) -> str | None:
        if resource_type == TOPIC:
            return self.topic(name)
        if resource_type in (BROKER, BROKER_LOGGER) and (node := node_in(name)) is not None:
            return str(self.node(node))
        return name


class ClientNames:
    """The names that clients have for entities that a leaf names. topics: those that they have named, by the leaf's
    name."""

    def __init__(self, union: Entities, leaf: LeafNumber, topics: Mapping[str, str]) -> None:
        self._union, self._leaf = union, leaf
        self._topics = topics

    def topic(self, name: str) -> str | None:
        return self._topics.get(name) or self._union.shown(self._leaf, name)

    def node(self, node: int) -> int:
        return self._union.virtual_node(self._leaf, node)

    def cluster_id(self, cluster_id: str) -> str | None:
        return self._union.cluster_id

    def resource(self, resource_type: int, name: str) -> str | None:
        """None of what clients do not find at this leaf."""
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
