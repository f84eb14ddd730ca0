"""What the handler of an API is, and what it is told about a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import Answer, Effect
from mesh.pool.common.ids import ConnectionId, Ticket
from mesh.pool.core import PoolCore
from mesh.security.principals import ANONYMOUS
from mesh.security.rules import UNLIMITED, Access
from mesh.security.session import Answer as AuthenticationStep
from mesh.security.session import Handshake, Session
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.messages import RequestMessage, ResponseMessage

BROKER_NODE = 1
COORDINATOR_NODE = 2
"""The coordinator has a node id and a port of its own: some clients would let their heartbeats wait behind a parked
Fetch if it shared the broker's (clients.md 7)."""


@dataclass(frozen=True, slots=True)
class HostAndPort:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How clients reach a virtual cluster: what is advertised to them."""

    cluster_id: str
    broker: HostAndPort
    coordinator: HostAndPort


@dataclass(frozen=True, slots=True)
class Authentication:
    """A step of an authentication: answer it, now or when a thread has done its part; a failure after a delay."""

    ticket: Ticket
    step: Handshake | AuthenticationStep


HandlerEffect: TypeAlias = Effect | Authentication


@dataclass(slots=True)
class EmptyAnswer:
    """The last answer to a Fetch of a connection that had no records: who waits for them asks the same and is answered
    the same again and again, by the thousand. request, partitions: what it answered, and with what."""

    request: RequestMessage | None = None
    partitions: object = None
    response: ResponseMessage | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """One request: where it came from and under which ticket it is to be answered.

    now: seconds of a clock that only goes forward. wall: seconds since the epoch. session: who asks.
    empty_answer: of its connection.
    access: what they may do; asked by `mesh.apis.authorization`, where a new handler puts its guard, not by handlers.
    """

    cluster: PoolCore
    endpoint: Endpoint
    served: Mapping[ApiKey, Versions]
    connection: ConnectionId
    client_id: str
    client_host: str
    version: int
    ticket: Ticket
    now: float
    wall: float = 0.0
    session: Session = field(default_factory=Session)
    access: Access = UNLIMITED
    empty_answer: EmptyAnswer = field(default_factory=EmptyAnswer)

    @property
    def client(self) -> ClientIdentity:
        return ClientIdentity(self.client_id, self.client_host, self.session.principal or ANONYMOUS)

    def answer(self, response: ResponseMessage) -> list[Effect]:
        return [Answer(self.ticket, response)]


Request = TypeVar("Request", bound=RequestMessage)
Result = TypeVar("Result")


def as_it_is(context: Context, request: RequestMessage, result: ResponseMessage) -> ResponseMessage:
    """For handlers that answer with a message themselves."""
    return result


@dataclass(frozen=True, slots=True)
class Api(Generic[Request, Result]):
    """handle: what a request leads to; it is answered by an `Answer` among these effects, or among later ones.
    respond: the message for the result that such an `Answer` carries."""

    key: ApiKey
    versions: Versions
    handle: Callable[[Context, Request], Sequence[HandlerEffect]]
    respond: Callable[[Context, Request, Result], ResponseMessage]


AnyApi = Api[Any, Any]
