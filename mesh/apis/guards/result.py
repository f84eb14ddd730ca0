"""What a guard says of a request (`mesh.apis.authorization`), and what all guards ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mesh.apis.api import RequestContext
from mesh.security.rules import Operation, Refusal, ResourceType
from mesh.wire import messages as m
from mesh.wire.errors import ErrorCode

TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class Denied:
    response: m.ResponseMessage
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """A request of which only a part is allowed. complete: the answer of the handler to the one the client gets."""

    request: m.RequestMessage
    complete: Callable[[Any], m.ResponseMessage]
    refusals: tuple[Refusal, ...] = ()


AuthorizationResult: TypeAlias = Denied | Partial | None
Guard: TypeAlias = Callable[[RequestContext, Any], AuthorizationResult]


def may_topic(context: RequestContext, operation: Operation, name: str) -> bool:
    return context.access.allows(operation, ResourceType.TOPIC, name)


def may_group(context: RequestContext, operation: Operation, name: str) -> bool:
    return context.access.allows(operation, ResourceType.GROUP, name)


def topics_refused(operation: Operation, names: Sequence[str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(operation, ResourceType.TOPIC, name) for name in names)


def groups_refused(operation: Operation, names: Iterable[str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(operation, ResourceType.GROUP, name) for name in names)


def name_of(context: RequestContext, topic_id: Any) -> str | None:
    return context.topic_name(topic_id) if topic_id is not None else None
