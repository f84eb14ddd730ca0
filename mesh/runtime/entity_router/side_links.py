"""The connections that one client of a router has besides the one to its own node: they carry requests that are
divided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Final, assert_never

from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.relay.nodes import RelayNode
from mesh.runtime.relay.traffic import Unanswered
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.errors import ProtocolError
from mesh.wire.first_errors import first_error
from mesh.wire.reader import INT32

MOST_TRIED: Final = 3
"""The most nodes of a leaf that are tried for one request."""
_LOOKED_AT: Final = 4_096
"""Bytes of a response that are searched for its first error."""


class SideLinks:
    """One connection to each node that was asked, for one client. A broker handles one request of a connection at a
    time, so clients do not share these connections.

    count: called with the number of new connections; a negative number when they end. None: they are few in any case.
    """

    def __init__(self, count: Callable[[int], None] | None = None) -> None:
        self._count = count or (lambda _: None)
        self._links: dict[tuple[LeafNumber, int], BrokerLink] = {}

    async def ask(
        self,
        leaf: RouterLeaf,
        request: ClientRequest,
        waits: float,
        node: int | None,
        others_than: Container[int] = (),
    ) -> ClientResponse:
        """Sends a request to a node of a leaf, and returns the response. node: the id that its cluster gave it; None
        for any. others_than: nodes to which only a request for any node goes that no other can get. waits: seconds that
        the broker may take besides. Raises Unreachable; the request may have been carried out nevertheless."""
        await leaf.nodes.wait_for_attempt()
        reason = Unreachable("the cluster has no such node")
        for known in self._tried(leaf, node, others_than):
            link = self._link(leaf, known)
            try:
                await link.versions()
            except Unreachable as problem:
                reason = problem
                continue
            return await _send(leaf, known.id, link, request, waits)
        raise reason

    def close(self) -> None:
        links, self._links = self._links, {}
        self._count(-len(links))
        for link in links.values():
            link.close()

    def _tried(self, leaf: RouterLeaf, node: int | None, others_than: Container[int]) -> list[RelayNode]:
        if node is not None:
            return [leaf.nodes.known[node]] if node in leaf.nodes.known else []
        nodes = sorted(leaf.nodes.in_turn(), key=lambda each: each.id in others_than)[:MOST_TRIED]
        return sorted(nodes, key=lambda each: (each.id in others_than, (leaf.number, each.id) not in self._links))

    def _link(self, leaf: RouterLeaf, node: RelayNode) -> BrokerLink:
        link = self._links.get((leaf.number, node.id))
        if link is None or link.address != node.address:
            if link is not None:
                link.close()
            else:
                self._count(1)
            link = self._links[leaf.number, node.id] = leaf.nodes.link_to(node)
        return link


async def _send(leaf: RouterLeaf, node: int, link: BrokerLink, request: ClientRequest, waits: float) -> ClientResponse:
    loop, key = asyncio.get_running_loop(), ApiKey(request.api_key)
    began = loop.time()
    response = await link.request(request, waits)
    beginning = memoryview(bytes(INT32.size) + response.frame[:_LOOKED_AT])
    error = first_error(key, request.api_version, beginning)
    sizes = sum(map(len, request.body)), len(response.frame) + INT32.size if response.frame else 0
    leaf.services.traffic.of(node).answered(key, *sizes, loop.time() - began, error)
    return response


def reason_of(problem: Unreachable | ProtocolError | TimeoutError) -> Unanswered:
    """The reason why a leaf has not answered."""
    match problem:
        case Unreachable():
            return "unreachable"
        case ProtocolError():
            return "bad_answer"
        case TimeoutError():
            return "timeout"
        case _:
            assert_never(problem)
