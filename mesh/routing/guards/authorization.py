"""The questions of a guard to the rules about one request, and the judgement that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from mesh.security.rules import ANY, CLUSTER_NAME, Access, Operation, Refusal, ResourceType
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
"""The error code of a denied operation, by the type of resource."""


class TopicIdNames(Protocol):
    """The names of topics by their ids (KIP-516)."""

    def topic_name(self, topic_id: UUID, /) -> str | None:
        """Returns the clients' name of a topic. None: no known topic that clients see has this id."""


@dataclass(slots=True, eq=False)
class RequestAuthorization:
    """One request while it is judged. access: the permissions of its client. refusals: the operations that were refused
    so far; the client is told of them."""

    access: Access
    topics: TopicIdNames
    refusals: list[Refusal] = field(default_factory=list)

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> ErrorCode | None:
        """Returns the error of an operation, and notes the refusal; None if the operation is allowed."""
        if self.access.allows(operation, resource_type, name):
            return None
        self.refusals.append(Refusal(operation, resource_type, name))
        return REFUSED[resource_type]

    def authorize_cluster(self, operation: Operation) -> ErrorCode | None:
        return self.authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def authorize_all(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Returns whether an operation is allowed for every resource of a type; if not, notes the refusal."""
        if self.access.allows_all(operation, resource_type):
            return True
        self.refusals.append(Refusal(operation, resource_type, ANY))
        return False

    def authorize_topic_id(self, operation: Operation, topic_id: UUID) -> ErrorCode | None:
        name = self.topics.topic_name(topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if name is None else self.authorize(operation, ResourceType.TOPIC, name)

    def sees(self, resource_type: ResourceType, name: str) -> bool:
        """Returns True if the client may see a resource in a list. Leaving it out is not noted as a refusal."""
        return self.access.allows(Operation.DESCRIBE, resource_type, name)

    def allows_on_cluster(self, operation: Operation) -> bool:
        """Returns True if an operation on the cluster is allowed. If it is not, no refusal is noted: a permission for
        single resources may still allow it."""
        return self.access.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)


Complete: TypeAlias = Callable[[Tree], Tree]
"""Makes the answer for one client from the answer that is the same for all clients."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement on a request that cannot pass unchanged.

    request: the allowed part, in the client's names; None if nothing is allowed. refused: an answer with the refused
    elements; None if there are none. complete: changes the answer of the cluster; None if it stays. refusals: the
    refused operations. later: those that `complete` refuses; empty until it is called.
    """

    request: Tree | None
    refused: Tree | None = None
    complete: Complete | None = None
    refusals: tuple[Refusal, ...] = ()
    later: Sequence[Refusal] = ()
