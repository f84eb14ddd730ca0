"""The context of requests for a router that decides by request: it answers the router's questions, and sends its
requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from mesh.listener.client_transport import ClientTransport
from mesh.routing.kit.errors import error_answer
from mesh.routing.moves.translation import MovingTranslation
from mesh.routing.names import RouteName
from mesh.routing.spi import Disconnect, Node, Request, Respond, RespondWithoutReply, RouteUnavailable
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.entity_router.side_links import SideLinks, reason_of
from mesh.runtime.request_router.route_interception import RouteInterception
from mesh.runtime.request_router.services import RequestRouterServices
from mesh.security.principals import Principal
from mesh.security.rules import Refusal
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.client.connection import ClientRequest
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.produce_batches import body_of
from mesh.wire.reader import INT16, INT32
from mesh.wire.routed import Translation
from mesh.wire.trees import Tree, read_tree, write_tree

log = get_logger(__name__)

_NO_TAGS: Final = b"\0"


class _Asker:
    """Sends requests to the union of a route, in place of a client's connection. Implements
    `mesh.runtime.entity_router.asking.Asker`."""

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

    client: None for requests of the mesh itself, which no interceptor sees. node: the node whose address the client
    connected to.
    """

    def __init__(self, services: RequestRouterServices, client: ClientTransport | None, node: Node | None) -> None:
        self.node: Final = node
        self.client_id: str | None = None
        self._services: Final = services
        self._client: Final = client
        self._links: Final[dict[RouteName, SideLinks]] = {}
        self._interceptions: Final[dict[RouteName, RouteInterception]] = {}
        self._further: Final[dict[Node, FurtherRouter]] = {}
        """The routers behind this one, by node. Each acts as if the client had connected to that node."""

    @property
    def session_id(self) -> str:
        return "" if self._client is None else str(self._client.id)

    @property
    def principal(self) -> Principal:
        assert self._client is not None, "nobody asks who the mesh is"
        principal = self._client.session.principal
        assert principal is not None, "a client that has not authenticated asks nothing"
        return principal

    def any_node(self, route: RouteName) -> Node:
        return self._services.any_node(route)

    def node_for_id(self, id: int) -> Node | None:
        found = self._services.locate(id)
        if found is None or found[2] not in found[1].nodes.known:
            return None
        return Node(found[0], id)

    def error(self, request: Request, code: int) -> Respond:
        return Respond(error_answer(request.api, request.version, request.body, code))

    async def send(self, node: Node, request: Request) -> Tree:
        behind = self._services.routes[node.route]
        if isinstance(behind, RequestRouterServices):
            return await self._send_to_router(behind, node, request)
        leaf, known = self._leaf_of(behind, node)
        links = self._links.get(node.route)
        if links is None:
            links = self._links[node.route] = SideLinks(self._services.listener.admission.count_broker_connections)
        frame = memoryview(_framed(request, self.client_id))
        head = RequestHead._make(REQUEST_HEAD.unpack_from(frame))

        async def send(frame: memoryview) -> list[Buffer]:
            gate = behind.requests.gate
            if gate is None:
                return await self._send_to_leaf(behind, leaf, known, links, request, frame)
            await gate.wait_to_pass(request.api, request.body)
            with gate.working(request.api):
                return await self._send_to_leaf(behind, leaf, known, links, request, frame)

        try:
            interception = self._interception(node.route, behind)
            answer = await (send(frame) if interception is None else interception.answer(head, frame, node.id, send))
        except (Unreachable, TimeoutError, ProtocolError) as problem:
            leaf.services.traffic.not_answered(request.api, reason_of(problem))
            raise RouteUnavailable(f"{node.route}: {problem}") from problem
        return _read(request, answer) if answer else {}

    def close(self) -> None:
        with ExitStack() as closing:
            for further in self._further.values():
                closing.callback(further.close)
            for links in self._links.values():
                closing.callback(links.close)

    async def _send_to_router(self, behind: RequestRouterServices, node: Node, request: Request) -> Tree:
        """Returns the response of a router behind this one. Raises RouteUnavailable."""
        further = self._further.get(node)
        if further is None:
            if node.id is not None and behind.locate(node.id) is None:
                raise RouteUnavailable(f"route {node.route} has no node {node.id}")
            assert self._client is not None, "the mesh itself asks clusters"
            further = self._further[node] = FurtherRouter(behind, self._client, node)
        further.context.client_id = self.client_id
        frame = memoryview(_framed(request, self.client_id))
        head = RequestHead._make(REQUEST_HEAD.unpack_from(frame))
        interception = self._interception(node.route, behind)
        try:
            if interception is None:
                answer = await further.answer(frame, request)
            else:
                answer = await interception.answer(
                    head, frame, node.id, lambda changed: further.answer(changed, request)
                )
        except ProtocolError as problem:
            raise RouteUnavailable(f"{node.route}: {problem}") from problem
        return _read(request, answer) if answer else {}

    def _interception(
        self, route: RouteName, behind: EntityRouterRuntime | RequestRouterServices
    ) -> RouteInterception | None:
        if behind.interceptors is None:
            return None
        if route not in self._interceptions:
            clock = asyncio.get_running_loop().time
            self._interceptions[route] = RouteInterception(behind.interceptors, lambda: self.principal, clock)
        return self._interceptions[route]

    def _leaf_of(self, behind: EntityRouterRuntime, node: Node) -> tuple[RouterLeaf, int | None]:
        if node.id is None:
            return behind.leaves.default, None
        found = self._services.locate(node.id)
        if found is None or found[0] != node.route:
            raise RouteUnavailable(f"route {node.route} has no node {node.id}")
        return found[1], found[2]

    async def _send_to_leaf(
        self,
        behind: EntityRouterRuntime,
        leaf: RouterLeaf,
        node: int | None,
        links: SideLinks,
        request: Request,
        frame: memoryview,
    ) -> list[Buffer]:
        translation: Translation = behind.leaves.translation(leaf)
        if (gate := behind.requests.gate) is not None:
            translation = MovingTranslation(translation, gate, is_moved_from=False)  # the router has its own sessions
        passed = translation.request(RequestHead._make(REQUEST_HEAD.unpack_from(frame)), frame)
        if passed is None:
            return await behind.requests.answer(_Asker(leaf, node, links), bytes(frame))
        translated = memoryview(b"".join(passed.frame))
        api, version = request.api, request.version
        body = translated[body_of(api, version, translated) :]
        sent = ClientRequest(api, version, is_flexible(api, version), (body,), passed.is_answered)
        waits = _waits(request)
        async with asyncio.timeout(behind.requests.timeout + waits):
            response = await links.ask(leaf, sent, waits, node)
        return list(translation.answer(api, version, response.frame)) if passed.is_answered else []


class FurtherRouter:
    """A router behind another one, for one client and one node. node: as the router in front knows it; without an id,
    any node of its route."""

    def __init__(self, services: RequestRouterServices, client: ClientTransport, node: Node) -> None:
        here = None if node.id is None else services.node(node.id)
        self.context: Final = ConnectionContext(services, client, here)
        self._services: Final = services
        self._route: Final = node.route
        self._router: Final = services.router(client)

    async def answer(self, frame: memoryview, sent: Request) -> list[Buffer]:
        """Returns the response with its length; nothing for a request that wants no response. frame: the request to
        handle, with the changes of interceptors. sent: the request as the router in front sent it. Raises
        RouteUnavailable, and the router's exceptions."""
        api, version = sent.api, sent.version
        tree = self._services.kind.reads(api, version, Direction.REQUEST, frame[body_of(api, version, frame) :])
        match await self._router.on_request(Request(api, version, tree, sent.wants_answer), self.context):
            case Respond(body=body) if sent.wants_answer:
                written = write_tree(api, version, Direction.RESPONSE, dict(body))
                tags = _NO_TAGS if has_tagged_response_header(api, version) else b""
                return [INT32.pack(INT32.size + len(tags) + len(written)) + bytes(INT32.size) + tags, written]
            case RespondWithoutReply() if not sent.wants_answer:
                return []
            case Disconnect(reason=reason):
                raise RouteUnavailable(f"{self._route}: its router ends the connection: {reason}")
            case result:
                wanted = "an answer" if sent.wants_answer else "none"
                raise TypeError(f"{api.name} wants {wanted}, and the router behind {self._route} returned {result!r}")

    def close(self) -> None:
        self.context.close()
        try:
            self._router.close()
        except Exception:
            log.exception("router failed to close", virtual_cluster=self._services.listener.name)


def _waits(request: Request) -> float:
    """Seconds that a broker may take because of timeouts in the request itself."""
    timeouts = [int(request.body.get(key, 0)) for key in ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms")]
    return max(0, *timeouts) / 1_000


def _framed(request: Request, client_id: str | None) -> bytearray:
    """Returns the frame of a request with its length, as a client would send it."""
    api, version = request.api, request.version
    tags = _NO_TAGS if is_flexible(api, version) else b""
    body = write_tree(api, version, Direction.REQUEST, request.body)
    encoded = (client_id or "").encode()
    name = INT16.pack(-1 if client_id is None else len(encoded)) + encoded
    length = REQUEST_HEAD.size - INT32.size + len(name) + len(tags) + len(body)
    return bytearray(REQUEST_HEAD.pack(length, api, version, 0) + name + tags + body)


def _read(request: Request, answer: list[Buffer]) -> Tree:
    api, version = request.api, request.version
    whole = b"".join(answer)
    start = 2 * INT32.size + has_tagged_response_header(api, version)
    return read_tree(api, version, Direction.RESPONSE, whole[start:])
