"""The interface through which programs translate the entities in messages that are passed on."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from mesh.wire.messages import Buffer


class EntityTranslator(Protocol):
    """Translates the entities of a message. Each method is called in the order of the message; an entity that stays
    equal keeps its bytes.

    Not translated are: nulls; node ids, producer ids, leader epochs and record epochs below 0; the zero topic id;
    addresses without a host; and controllers' ids and addresses in DescribeCluster.
    """

    def node(self, node: int) -> int: ...

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """Returns the address of a broker for clients, by the node id in the frame. None: clients cannot reach it.

        The broker is then left out of its list; FindCoordinator reports such a coordinator as not available.
        """

    def cluster_id(self, cluster_id: str) -> str: ...

    def topic(self, name: str) -> str: ...

    def topic_id(self, topic_id: UUID) -> UUID: ...

    def topic_pattern(self, pattern: str) -> str:
        """Translates a regular expression (RE2) of topic names."""

    def partition(self, partition: int) -> int:
        """Translates a partition number of the topic that was translated last. Called only by programs with
        partitions."""

    def leader_epoch(self, epoch: int) -> int:
        """Translates the leader epoch of the partition that was translated last. The same partition applies to the next
        three methods."""

    def record_epoch(self, epoch: int) -> int:
        """Translates the leader epoch of a record that a client has read."""

    def end_epoch(self, epoch: int) -> int:
        """Translates the leader epoch of the end offset that is translated next; -1 if it is unknown."""

    def end_offset(self, offset: int) -> int: ...

    def group(self, group_id: str) -> str: ...

    def transactional_id(self, transactional_id: str) -> str: ...

    def transactional_id_pattern(self, pattern: str) -> str:
        """Translates a regular expression (RE2) of transactional ids."""

    def producer(self, producer_id: int) -> int: ...

    def coordinator_key(self, key: str) -> str:
        """Translates a key in an answer to FindCoordinator, which has no key type: a group id or a transactional id."""

    def subscription(self, subscription: memoryview) -> Buffer:
        """Translates the subscription of a member of a classic group; for consumers a ConsumerProtocolSubscription."""

    def assignment(self, assignment: memoryview) -> Buffer:
        """Translates the assignment that the leader of a classic group gives a member; for consumers a
        ConsumerProtocolAssignment."""


class Unchanged:
    """A base class for `EntityTranslator` that leaves all entities unchanged."""

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

    def partition(self, partition: int) -> int:
        return partition

    def leader_epoch(self, epoch: int) -> int:
        return epoch

    def record_epoch(self, epoch: int) -> int:
        return epoch

    def end_epoch(self, epoch: int) -> int:
        return epoch

    def end_offset(self, offset: int) -> int:
        return offset

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
