"""The brokers that clients see as one node: those of a cluster, or of all clusters of a union."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Protocol

from mesh.runtime.entity_router.side_links import reason_of
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.traffic import Traffic
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree, read_tree, write_tree


class Channel(Enum):
    """One of several connections to a broker. A broker handles one request of a connection at a time, so a Fetch or a
    Produce that waits there delays no other request."""

    FETCH = "fetch"
    PRODUCE = "produce"
    ASK = "ask"


class NotSent(Unreachable):
    """Raised when a broker was not reached, and so did not get the request."""


class Brokers(Protocol):
    """The brokers behind one node, by ids that clients do not see. name: a name for logs. interval: seconds between two
    refreshes of the topics in use."""

    @property
    def name(self) -> str: ...

    @property
    def interval(self) -> float: ...

    @property
    def known(self) -> Collection[int]: ...

    def in_turn(self) -> Iterable[int]:
        """Returns all brokers, beginning with another one each time. Those that could not be reached come last."""

    async def ask_any(self, api_key: ApiKey, version: int, request: Mapping[str, Any]) -> Tree:
        """Returns the response of any broker; of another one, if the first is late. The request may be sent twice.
        version: a lower one is used if brokers do not have this one. Raises Unreachable, ProtocolError."""

    def not_answered(self, api_key: ApiKey, problem: Unreachable | ProtocolError) -> None:
        """Counts a request that was not answered."""


class Links(Protocol):
    """The connections of one client to brokers."""

    async def ask(
        self,
        broker: int,
        channel: Channel,
        api_key: ApiKey,
        version: int,
        request: Tree,
        waits: float = 0.0,
        *,
        is_answered: bool = True,
    ) -> Tree:
        """Sends a request to a broker, and returns its response; an empty one if none is expected. waits: seconds that
        the broker may take besides.

        Requests of one channel are sent in the order of the calls. Raises Unreachable (NotSent is one) and
        ProtocolError.
        """

    def close(self) -> None: ...


class ClusterBrokers:
    """The brokers of one cluster. Implements `Brokers`."""

    def __init__(self, nodes: RelayNodes, traffic: Traffic) -> None:
        self._nodes: Final = nodes
        self._traffic: Final = traffic

    @property
    def name(self) -> str:
        return self._nodes.cluster

    @property
    def interval(self) -> float:
        return self._nodes.interval

    @property
    def known(self) -> Collection[int]:
        return self._nodes.known

    def in_turn(self) -> Iterable[int]:
        return [each.id for each in self._nodes.in_turn()]

    async def ask_any(self, api_key: ApiKey, version: int, request: Mapping[str, Any]) -> Tree:
        def request_for(served: Mapping[int, VersionRange]) -> ClientRequest:
            known = served.get(api_key)
            chosen = min(version, known.highest if known is not None else RELAYED_APIS[api_key].lowest)
            body = write_tree(api_key, chosen, Direction.REQUEST, dict(request))
            return ClientRequest(api_key, chosen, is_flexible(api_key, chosen), (body,))

        def decoded(response: ClientResponse) -> Tree:
            return read_tree(api_key, response.request.api_version, Direction.RESPONSE, response.frame[response.body :])

        return await self._nodes.ask_any(request_for, decoded)

    def not_answered(self, api_key: ApiKey, problem: Unreachable | ProtocolError) -> None:
        self._traffic.not_answered(api_key, reason_of(problem))
