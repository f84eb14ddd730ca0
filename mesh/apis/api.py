"""What the handler of an API is, and what it is told about a request, whatever the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from mesh.apis.answers import Answer, ConnectionId, Ticket
from mesh.security.rules import Access
from mesh.security.session import AuthenticationResult, Handshake, Session
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.messages import RequestMessage, ResponseMessage


@dataclass(frozen=True, slots=True)
class Authentication:
    """A step of an authentication: answer it, now or when a thread has done its part; a failure after a delay."""

    ticket: Ticket
    step: Handshake | AuthenticationResult


RequestFields: TypeAlias = tuple[
    Mapping[ApiKey, Versions], ConnectionId, str, str, int, Ticket, float, float, Session, Access
]
"""The fields of a `RequestContext`, in their order: a target adds its own to them."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request: where it came from and under which ticket it is to be answered.

    now: seconds of a clock that only goes forward. wall: seconds since the epoch. session: who asks.
    access: what they may do; asked by `mesh.apis.authorization`, where a new handler puts its guard, not by handlers.
    served: what ApiVersions lists.
    """

    served: Mapping[ApiKey, Versions]
    connection: ConnectionId
    client_id: str
    client_host: str
    version: int
    ticket: Ticket
    now: float
    wall: float
    session: Session
    access: Access

    def topic_name(self, topic_id: UUID) -> str | None:
        """The topic that clients know by this id (KIP-516)."""
        return None

    def features(self) -> Features:
        """What ApiVersions says of them (KIP-584)."""
        return NO_FEATURES

    def answer(self, response: ResponseMessage) -> list[Answer]:
        return [Answer(self.ticket, response)]


@dataclass(frozen=True, slots=True)
class ListenerContext(RequestContext):
    """A request that the listener answers itself. cluster: what clients take for one cluster has these features."""

    cluster: Features

    def features(self) -> Features:
        return self.cluster


Context = TypeVar("Context", bound=RequestContext)
Effect = TypeVar("Effect")
Request = TypeVar("Request", bound=RequestMessage)
Result = TypeVar("Result")


def as_it_is(context: RequestContext, request: RequestMessage, result: ResponseMessage) -> ResponseMessage:
    """For handlers that answer with a message themselves."""
    return result


@dataclass(frozen=True, slots=True)
class Api(Generic[Context, Effect, Request, Result]):
    """The handler of one API. handle: what a request leads to; it is answered by an `Answer` among these effects, or
    among later ones. respond: the message for the result that such an `Answer` carries; None if the request is left
    unanswered."""

    key: ApiKey
    versions: Versions
    handle: Callable[[Context, Request], Sequence[Effect]]
    respond: Callable[[Context, Request, Result], ResponseMessage | None]


AnyApi = Api[Any, Any, Any, Any]
