"""What a router that decides for each request asks about, and sends, while it has one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from mesh.listener.client_transport import ClientTransport
from mesh.routing.kit.errors import error_answer
from mesh.routing.names import RouteName
from mesh.routing.spi import Node, Request, Respond, RouteUnavailable
from mesh.runtime.request_router.route_interception import RouteInterception
from mesh.runtime.request_router.services import RequestRouterServices
from mesh.runtime.router.leaves import RouterLeaf
from mesh.runtime.router.runtime import RouterRuntime
from mesh.runtime.router.side_links import SideLinks, reason_of
from mesh.security.principals import Principal
from mesh.security.rules import Refusal
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.client.connection import ClientRequest
from mesh.wire.entities import Side
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.produce_batches import body_of
from mesh.wire.reader import INT16, INT32
from mesh.wire.trees import Tree, read_tree, write_tree

_NO_TAGS: Final = b"\0"


class _Asker:
    """In the place of a client's connection: who a route's union is asked for. Implements
    `mesh.runtime.router.asking.Asker`."""

    __slots__ = ("judge", "leaf", "node", "side_links")

    def __init__(self, leaf: RouterLeaf, node: int | None, side_links: SideLinks) -> None:
        self.leaf: Final = leaf
        self.node: Final = node
        self.side_links: Final = side_links
        self.judge: Final = None

    def refused(self, api_key: ApiKey, frame: bytes, refusals: Sequence[Refusal]) -> None:
        raise AssertionError("nothing is judged")


class ConnectionContext:
    """The context that one connection gives to its router. Implements `mesh.routing.spi.RouterContext`.

    node: whose address the client came to. links: connections of the client's own, by route.
    """

    def __init__(self, services: RequestRouterServices, client: ClientTransport, node: Node | None) -> None:
        self.node: Final = node
        self.client_id: str | None = None
        self._services: Final = services
        self._client: Final = client
        self._links: Final[dict[RouteName, SideLinks]] = {}
        self._interceptions: Final[dict[RouteName, RouteInterception]] = {}

    @property
    def session_id(self) -> str:
        return str(self._client.id)

    @property
    def principal(self) -> Principal:
        principal = self._client.session.principal
        assert principal is not None, "a client that has not authenticated asks nothing"
        return principal

    def any_node(self, route: RouteName) -> Node:
        return self._services.any_node(route)

    def node_for_id(self, id: int) -> Node | None:
        found = self._services.place(id)
        if found is None or found[2] not in found[1].nodes.known:
            return None
        return Node(found[0], id)

    def error(self, request: Request, code: int) -> Respond:
        return Respond(error_answer(request.api, request.version, request.body, code))

    async def send(self, node: Node, request: Request) -> Tree:
        behind = self._services.routes[node.route]
        leaf, known = self._leaf_of(behind, node)
        links = self._links.get(node.route)
        if links is None:
            links = self._links[node.route] = SideLinks(self._services.listener.admission.reach_out)
        frame = memoryview(_framed(request, self.client_id))
        head = RequestHead._make(REQUEST_HEAD.unpack_from(frame))

        async def send(frame: memoryview) -> list[Buffer]:
            passed = behind.leaves.translation(leaf).request(head, frame)
            if passed is None:
                return await behind.requests.answer(_Asker(leaf, known, links), bytes(frame))
            told = memoryview(b"".join(passed.frame))
            return await self._passed(behind, leaf, known, links, request, told, passed.is_answered)

        try:
            interception = self._interception(node.route, behind)
            answer = await (send(frame) if interception is None else interception.answer(head, frame, node.id, send))
        except (Unreachable, TimeoutError, ProtocolError) as problem:
            leaf.services.traffic.not_answered(request.api, reason_of(problem))
            raise RouteUnavailable(f"{node.route}: {problem}") from problem
        return _read(request, answer) if answer else {}

    def close(self) -> None:
        for links in self._links.values():
            links.close()

    def _interception(self, route: RouteName, behind: RouterRuntime) -> RouteInterception | None:
        if behind.interceptors is None:
            return None
        if route not in self._interceptions:
            clock = asyncio.get_running_loop().time
            self._interceptions[route] = RouteInterception(behind.interceptors, lambda: self.principal, clock)
        return self._interceptions[route]

    def _leaf_of(self, behind: RouterRuntime, node: Node) -> tuple[RouterLeaf, int | None]:
        if node.id is None:
            return behind.leaves.default, None
        found = self._services.place(node.id)
        if found is None or found[0] != node.route:
            raise RouteUnavailable(f"route {node.route} has no node {node.id}")
        return found[1], found[2]

    async def _passed(
        self,
        behind: RouterRuntime,
        leaf: RouterLeaf,
        node: int | None,
        links: SideLinks,
        request: Request,
        told: memoryview,
        is_answered: bool,
    ) -> list[Buffer]:
        api, version = request.api, request.version
        sent = ClientRequest(
            api, version, is_flexible(api, version), (told[body_of(api, version, told) :],), is_answered
        )
        waits = _waits(request)
        async with asyncio.timeout(behind.requests.timeout + waits):
            response = await links.ask(leaf, sent, waits, node)
        if not is_answered:
            return []
        return list(behind.leaves.translation(leaf).answer(api, version, response.frame))


def _waits(request: Request) -> float:
    """Seconds that a broker may take by what the request itself says."""
    said = [int(request.body.get(key, 0)) for key in ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms")]
    return max(0, *said) / 1_000


def _framed(request: Request, client_id: str | None) -> bytearray:
    """With its length, as a client would send it."""
    api, version = request.api, request.version
    tags = _NO_TAGS if is_flexible(api, version) else b""
    body = write_tree(api, version, Side.REQUEST, request.body)
    told = (client_id or "").encode()
    name = INT16.pack(-1 if client_id is None else len(told)) + told
    length = REQUEST_HEAD.size - INT32.size + len(name) + len(tags) + len(body)
    return bytearray(REQUEST_HEAD.pack(length, api, version, 0) + name + tags + body)


def _read(request: Request, answer: list[Buffer]) -> Tree:
    api, version = request.api, request.version
    whole = b"".join(answer)
    start = 2 * INT32.size + has_tagged_response_header(api, version)
    return read_tree(api, version, Side.RESPONSE, whole[start:])
