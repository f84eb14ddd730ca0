"""The handler of an API and the context of a request, for every kind of target."""

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
    """The effect of a step of an authentication. It is answered now, or when a thread has checked the password; a
    failure is answered after a delay."""

    ticket: Ticket
    step: Handshake | AuthenticationResult


RequestFields: TypeAlias = tuple[
    Mapping[ApiKey, Versions], ConnectionId, str, str, int, Ticket, float, float, Session, Access
]
"""The fields of a `RequestContext`, in their order. Each target adds its own."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The context of one request: its client, and the ticket for its answer.

    * served: the versions in ApiVersions.
    * now: seconds of a monotonic clock. wall: seconds since the epoch.
    * session: the client's identity.
    * access: the client's permissions. `mesh.apis.authorization` checks them; a new handler needs a guard there.
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
        """Returns the name of the topic that clients know by this id (KIP-516)."""
        return None

    def features(self) -> Features:
        """Returns the features for ApiVersions (KIP-584)."""
        return NO_FEATURES

    def answer(self, response: ResponseMessage) -> list[Answer]:
        return [Answer(self.ticket, response)]


@dataclass(frozen=True, slots=True)
class ListenerContext(RequestContext):
    """The context of a request that the listener answers itself.

    cluster: the features that clients see. is_version_unknown: see `mesh.wire.connection.FramedRequest`.
    """

    cluster: Features
    is_version_unknown: bool = False

    def features(self) -> Features:
        return self.cluster


Context = TypeVar("Context", bound=RequestContext)
Effect = TypeVar("Effect")
Request = TypeVar("Request", bound=RequestMessage)
Result = TypeVar("Result")


def as_it_is(context: RequestContext, request: RequestMessage, result: ResponseMessage) -> ResponseMessage:
    """Returns the result itself, for handlers whose result is the response."""
    return result


@dataclass(frozen=True, slots=True)
class Api(Generic[Context, Effect, Request, Result]):
    """The handler of one API.

    * handle: returns the effects of a request. An `Answer` among them, or among later effects, answers it.
    * respond: returns the response for the result in such an `Answer`; None if the request gets no response.
    """

    key: ApiKey
    versions: Versions
    handle: Callable[[Context, Request], Sequence[Effect]]
    respond: Callable[[Context, Request, Result], ResponseMessage | None]


AnyApi = Api[Any, Any, Any, Any]
