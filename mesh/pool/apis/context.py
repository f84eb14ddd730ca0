"""What the handlers of a pool's APIs are told about a request, and the addresses that clients are told to come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from mesh.apis.api import RequestContext
from mesh.pool.common.client import ClientIdentity
from mesh.pool.core import PoolCore
from mesh.security.principals import ANONYMOUS
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


@dataclass(slots=True)
class EmptyAnswer:
    """The last answer to a Fetch of a connection that had no records: who waits for them asks the same and is answered
    the same again and again, by the thousand. request, partitions: what it answered, and with what."""

    request: RequestMessage | None = None
    partitions: object = None
    response: ResponseMessage | None = None


@dataclass(frozen=True, slots=True)
class PoolContext(RequestContext):
    """One request to a pool. empty_answer: of its connection."""

    core: PoolCore
    endpoint: Endpoint
    empty_answer: EmptyAnswer = field(default_factory=EmptyAnswer)

    @property
    def client(self) -> ClientIdentity:
        return ClientIdentity(self.client_id, self.client_host, self.session.principal or ANONYMOUS)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.core.topics.name_of(topic_id)
