"""What whoever passes messages on puts in place of the entities in them."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from mesh.wire.messages import Buffer


class Entities(Protocol):
    """One answer for each entity of a message, in the order of the message; the same entity: its bytes stay.

    Nobody is asked about what is null, about node ids and producer ids below 0, the zero topic id, an address without a
    host, and the node ids and addresses of controllers in DescribeCluster: they pass as they are.
    """

    def node(self, node: int) -> int: ...

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """Of a broker, by the id that it has in the frame. None: clients cannot reach it.

        It is left out of the list in which it stands then; the coordinator of FindCoordinator is not available.
        """

    def cluster_id(self, cluster_id: str) -> str: ...

    def topic(self, name: str) -> str: ...

    def topic_id(self, topic_id: UUID) -> UUID: ...

    def topic_pattern(self, pattern: str) -> str:
        """A regular expression of RE2."""

    def group(self, group_id: str) -> str: ...

    def transactional_id(self, transactional_id: str) -> str: ...

    def transactional_id_pattern(self, pattern: str) -> str:
        """A regular expression of RE2."""

    def producer(self, producer_id: int) -> int: ...

    def coordinator_key(self, key: str) -> str:
        """Of an answer to FindCoordinator, which does not say what was asked: a group, or a transactional id."""

    def subscription(self, subscription: memoryview) -> Buffer:
        """What a member of a classic group says of itself; for consumers a ConsumerProtocolSubscription."""

    def assignment(self, assignment: memoryview) -> Buffer:
        """What the leader of a classic group gives a member; for consumers a ConsumerProtocolAssignment."""


class Unchanged:
    """Entities that all stay what they are; to be derived from."""

    __slots__ = ()

    def node(self, node: int) -> int:
        return node

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return host, port

    def cluster_id(self, cluster_id: str) -> str:
        return cluster_id

    def topic(self, name: str) -> str:
        return name

    def topic_id(self, topic_id: UUID) -> UUID:
        return topic_id

    def topic_pattern(self, pattern: str) -> str:
        return pattern

    def group(self, group_id: str) -> str:
        return group_id

    def transactional_id(self, transactional_id: str) -> str:
        return transactional_id

    def transactional_id_pattern(self, pattern: str) -> str:
        return pattern

    def producer(self, producer_id: int) -> int:
        return producer_id

    def coordinator_key(self, key: str) -> str:
        return key

    def subscription(self, subscription: memoryview) -> Buffer:
        return subscription

    def assignment(self, assignment: memoryview) -> Buffer:
        return assignment
