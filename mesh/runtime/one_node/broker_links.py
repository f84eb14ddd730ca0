"""The connections of one client to the brokers of a cluster, by purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mesh.runtime.one_node.brokers import Channel, NotSent
from mesh.runtime.relay.nodes import RelayNode, RelayNodes
from mesh.runtime.relay.traffic import Traffic
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.handshake import Allocate, Unreachable
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.entities import Direction
from mesh.wire.first_errors import first_error
from mesh.wire.reader import INT32
from mesh.wire.trees import Tree, read_views, write_pieces

_LOOKED_AT: Final = 4_096
"""Bytes of a response that are searched for its first error."""


class BrokerLinks:
    """The connections to the brokers of one cluster, made when needed. Implements
    `mesh.runtime.one_node.brokers.Links`.

    allocate: gives buffers for responses. count: takes the number of new links; a negative number when links end.
    """

    def __init__(self, nodes: RelayNodes, traffic: Traffic, allocate: Allocate, count: Callable[[int], None]) -> None:
        self._nodes: Final = nodes
        self._allocate: Final = allocate
        self._traffic: Final = traffic
        self._count: Final = count
        self._links: dict[tuple[int, Channel], _InOrder] = {}

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
        """Sends a request to a broker, and returns its response; an empty one if none is expected. Records in it are
        views of the received frame. waits: seconds that the broker may take besides.

        Requests of one channel are sent in the order of the calls. Raises Unreachable (NotSent is one) and
        ProtocolError.
        """
        body = write_pieces(api_key, version, Direction.REQUEST, request)
        sent = ClientRequest(api_key, version, is_flexible(api_key, version), tuple(body), is_answered)
        response = await self._ask(broker, channel, sent, waits)
        if not is_answered:
            return {}
        return read_views(api_key, version, Direction.RESPONSE, response.frame[response.body :])

    def close(self) -> None:
        links, self._links = self._links, {}
        self._count(-len(links))
        for each in links.values():
            each.link.close()

    def drop_gone(self) -> None:
        """Closes the links to brokers that the cluster has removed or moved, and so fails their requests. A broker that
        hangs would otherwise hold its clients up much longer than the cluster waited for it."""
        known = self._nodes.known
        gone = [key for key, each in self._links.items() if not _is_at(known.get(key[0]), each.link.address)]
        self._count(-len(gone))
        for key in gone:
            self._links.pop(key).link.close()

    async def _ask(self, broker: int, channel: Channel, request: ClientRequest, waits: float) -> ClientResponse:
        node = self._nodes.known.get(broker)
        if node is None:
            raise NotSent(f"the cluster has no node {broker}")
        loop, key = asyncio.get_running_loop(), ApiKey(request.api_key)
        began = loop.time()
        response = await self._link(node, channel).request(request, waits)
        error = first_error(key, request.api_version, memoryview(bytes(INT32.size) + response.frame[:_LOOKED_AT]))
        sizes = sum(map(len, request.body)), len(response.frame) + INT32.size if response.frame else 0
        self._traffic.of(broker).answered(key, *sizes, loop.time() - began, error)
        return response

    def _link(self, node: RelayNode, channel: Channel) -> _InOrder:
        known = self._links.get((node.id, channel))
        if known is None or not _is_at(node, known.link.address):
            if known is not None:
                known.link.close()
            else:
                self._count(1)
            known = self._links[node.id, channel] = _InOrder(self._nodes.link_to(node, self._allocate))
        return known


def _is_at(node: RelayNode | None, address: str) -> bool:
    return node is not None and node.address == address


class _InOrder:
    """A link that sends requests in the order in which they are made, also while it connects."""

    def __init__(self, link: BrokerLink) -> None:
        self.link: Final = link
        self._turn: Final = asyncio.Lock()
        self._failures = 0
        self._reason = ""

    async def request(self, request: ClientRequest, waits: float) -> ClientResponse:
        failures = self._failures
        async with self._turn:
            if self._failures > failures:
                raise NotSent(self._reason)  # requests that waited for a failed attempt fail with it
            try:
                answer = await self.link.send(request, waits)
            except Unreachable as problem:
                self._failures, self._reason = self._failures + 1, str(problem)
                raise NotSent(self._reason) from problem
        return await answer
