"""What guards ask of the rules, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from mesh.security.rules import CLUSTER_NAME, Access, Operation, Refusal, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

REFUSED: Final[Mapping[ResourceType, ErrorCode]] = MappingProxyType(
    {
        ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""What is answered where an operation on such a resource is not allowed."""


class TopicNames(Protocol):
    """The names of topics by their ids (KIP-516)."""

    def topic_name(self, topic_id: UUID, /) -> str | None:
        """What clients call it. None: no topic that they are shown has this id, as far as is known."""


@dataclass(slots=True, eq=False)
class Asking:
    """One request that is judged. access: what its client may do. refusals: what it may not, and is told of."""

    access: Access
    topics: TopicNames
    refusals: list[Refusal] = field(default_factory=list)

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> ErrorCode | None:
        """The error of what is not allowed. None: it is allowed."""
        if self.access.allows(operation, resource_type, name):
            return None
        self.refusals.append(Refusal(operation, resource_type, name))
        return REFUSED[resource_type]

    def of_cluster(self, operation: Operation) -> ErrorCode | None:
        return self.refusal(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def of_topic_id(self, operation: Operation, topic_id: UUID) -> ErrorCode | None:
        name = self.topics.topic_name(topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if name is None else self.refusal(operation, ResourceType.TOPIC, name)

    def sees(self, resource_type: ResourceType, name: str) -> bool:
        """Whether a list has it for this client; what it has not is no refusal."""
        return self.access.allows(Operation.DESCRIBE, resource_type, name)

    def may_in_cluster(self, operation: Operation) -> bool:
        """Whether it is allowed for all; if not, that is no refusal yet."""
        return self.access.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)


Complete: TypeAlias = Callable[[Tree], Tree]
"""From the answer that everybody would get to that of one client."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of a request that does not pass as it is.

    request: what is left of it, in the client's names; None: nothing. refused: an answer with what is refused of it;
    None: nothing is. complete: what is to be done to the answer.
    """

    request: Tree | None
    refused: Tree | None = None
    complete: Complete | None = None
    refusals: tuple[Refusal, ...] = ()
