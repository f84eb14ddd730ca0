"""The result of a guard (`mesh.apis.authorization`), and the checks that guards share."""

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
    """The refusal of a whole request. response: the answer to the client."""

    response: m.ResponseMessage
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """The allowed part of a request. complete: makes the answer to the client from that of the handler. later: what
    `complete` refuses; empty until it is called."""

    request: m.RequestMessage
    complete: Callable[[Any], m.ResponseMessage]
    refusals: tuple[Refusal, ...] = ()
    later: Sequence[Refusal] = ()


AuthorizationResult: TypeAlias = Denied | Partial | None
Guard: TypeAlias = Callable[[RequestContext, Any], AuthorizationResult]


def may_topic(context: RequestContext, operation: Operation, name: str) -> bool:
    return context.access.allows(operation, ResourceType.TOPIC, name)


def may_group(context: RequestContext, operation: Operation, name: str) -> bool:
    return context.access.allows(operation, ResourceType.GROUP, name)


def hidden_topics(context: RequestContext, names: Iterable[str], refusals: list[Refusal]) -> bool:
    """Returns whether the client may not see one of these topics, and adds the refusals."""
    hidden = sorted(name for name in names if not may_topic(context, Operation.DESCRIBE, name))
    refusals += topics_refused(Operation.DESCRIBE, hidden)
    return bool(hidden)


def topics_refused(operation: Operation, names: Sequence[str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(operation, ResourceType.TOPIC, name) for name in names)


def groups_refused(operation: Operation, names: Iterable[str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(operation, ResourceType.GROUP, name) for name in names)


def name_of(context: RequestContext, topic_id: Any) -> str | None:
    return context.topic_name(topic_id) if topic_id is not None else None
