"""The context of a request for the handlers of a pool's APIs, and the addresses of the nodes that clients see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from mesh.apis.api import RequestContext
from mesh.pool.common.client import ClientIdentity
from mesh.pool.core import PoolCore
from mesh.security.principals import ANONYMOUS
from mesh.wire.messages import RequestMessage, ResponseMessage

_NUMBERS: Final = 1 << 29
"""The number of node pairs. Node ids are non-negative int32. Half of them are for the two nodes of each process, and a
quarter for further nodes."""


class NodePair(NamedTuple):
    """The node ids of one process. The coordinator has its own node id and port. If it shared the broker's, some
    clients would let their heartbeats wait behind a parked Fetch (clients.md 7)."""

    broker: int
    coordinator: int

    @classmethod
    def of(cls, number: int) -> NodePair:
        """Returns the nodes of the n-th of several processes, from 1 on."""
        return cls(2 * number - 1, 2 * number)

    @classmethod
    def at(cls, address: str) -> NodePair:
        """Returns the nodes of a process that does not know how many others there are. Its address determines them."""
        return cls.of(1 + crc32(address.encode()) % _NUMBERS)


FIRST_NODES: Final = NodePair.of(1)


def further_node_at(address: str) -> int:
    """Returns the id of a further node, in a process that does not know how many others there are. Its address
    determines it."""
    return 2 * _NUMBERS + 1 + crc32(address.encode()) % (_NUMBERS - 1)


@dataclass(frozen=True, slots=True)
class HostAndPort:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class AdvertisedNode(NamedTuple):
    """A node as clients see it."""

    id: int
    address: HostAndPort


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The addresses for clients of a virtual cluster. further: nodes that also lead partitions."""

    cluster_id: str
    broker: HostAndPort
    coordinator: HostAndPort
    nodes: NodePair = FIRST_NODES
    further: tuple[AdvertisedNode, ...] = ()

    def all_nodes(self) -> Iterator[AdvertisedNode]:
        yield AdvertisedNode(self.nodes.broker, self.broker)
        yield AdvertisedNode(self.nodes.coordinator, self.coordinator)
        yield from self.further

    def leaders(self, topic: str) -> Iterator[int]:
        """Returns the ids of the leaders of partition 0, 1, … of a topic: each node in turn, without end. Topics with
        one partition are spread over the nodes."""
        ids = (self.nodes.broker, *(each.id for each in self.further))
        return islice(cycle(ids), crc32(topic.encode()) % len(ids), None)


@dataclass(slots=True)
class EmptyAnswer:
    """The last Fetch answer without records on a connection. A client that waits for records repeats the same request
    thousands of times, and gets the same answer. request, partitions: the request and its result."""

    request: RequestMessage | None = None
    partitions: object = None
    response: ResponseMessage | None = None


@dataclass(frozen=True, slots=True)
class PoolContext(RequestContext):
    """One request to a pool. empty_answer: of the request's connection."""

    core: PoolCore
    endpoint: Endpoint
    empty_answer: EmptyAnswer = field(default_factory=EmptyAnswer)

    @property
    def client(self) -> ClientIdentity:
        return ClientIdentity(self.client_id, self.client_host, self.session.principal or ANONYMOUS)

    @property
    def is_at_coordinator(self) -> bool:
        """True if the client has connected to the coordinator's node. Only that node lists and describes groups. A
        program that asks each node gets each group once, as from the brokers of a cluster."""
        return self.core.connections[self.connection].node == self.endpoint.nodes.coordinator

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.core.topics.name_of(topic_id)
