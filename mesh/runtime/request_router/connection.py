"""The connection of one client to a router that decides for each request.

The router is asked about each request, several at a time, and responses are sent in the order of the requests. Requests
of static routes pass to a broker as they come. The mesh itself answers authentication and ApiVersions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import ClientTransport
from mesh.listener.guarded_connection import GuardedConnection
from mesh.listener.requests import PendingRequest
from mesh.routing.features import with_apis
from mesh.routing.names import RouteName
from mesh.runtime.entity_router.request_room import RequestRoom
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.interception.stage import NO_INTERCEPTION, NoInterception, interception_of
from mesh.runtime.request_router.services import RequestRouterServices
from mesh.runtime.request_router.static_legs import StaticLeg
from mesh.runtime.request_router.work import RouterWork
from mesh.tasks import OwnedTask, TaskName, begin, no_buffer
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.answer_queue import AnswerQueue, Ticket
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.features import Features
from mesh.wire.messages import Buffer, ResponseMessage
from mesh.wire.passing import Piece, RequestCutter, RequestHead
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.relaying import LARGEST_LOCAL
from mesh.wire.routed import LARGEST_TAKEN

log = get_logger(__name__)

MOST_AT_WORK: Final = 64
"""The most requests of one connection that its router works on. Above it, the connection is not read."""
MOST_UNANSWERED: Final = 500
"""The most unanswered requests of one connection, static routes included."""
_SERVED_HERE: Final = {key: (each.versions.lowest, each.versions.highest) for key, each in LISTENER_TABLE.items()}
_UNCHARGED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})


class RequestRouterConnection(GuardedConnection, asyncio.BufferedProtocol):
    """The connection of one client. node: the id of the node that the client connected to, as clients see it; None for
    an address that is no node's."""

    def __init__(self, services: RequestRouterServices, node: int | None) -> None:
        self.client = ClientTransport(services.listener, self, services.name)
        self.current_request: PendingRequest | None = None
        self._services = services
        self._listener = services.listener
        self._node = node
        self._cutter = RequestCutter(LARGEST_LOCAL)
        self._waiting: deque[Piece[RequestHead]] = deque()
        """Received bytes that are not handled yet."""
        self._answers = AnswerQueue()
        self._head: RequestHead | None = None
        """The head of the request that is read as a whole."""
        self._frame = bytearray()
        self._static: StaticLeg | None = None
        """The static leg to which the current request passes."""
        self._legs: dict[RouteName, StaticLeg] = {}
        self._local_connection: ServerConnection | None = None
        self._local: Ticket | None = None
        self._work: RouterWork | None = None
        self._room: RequestRoom | None = RequestRoom(services.memory, self.client.guarded(self.resumed))
        self._interception = interception_of(
            self, services.interceptors, self.client, self._is_authenticated, services.largest_request
        )
        self._waiting_for_nodes: asyncio.Task[None] | None = None
        self._is_going_on = False
        self._problem: ProtocolError | None = None
        """The protocol error that ended the stream of requests. Earlier requests are answered first."""

    # Called by the event loop

    def made(self, transport: asyncio.BaseTransport) -> None:
        if self._node is None:
            self._node = self._services.node_of(transport)
        if self._node is not None and self._services.node(self._node) is None:
            transport.abort()  # type: ignore[attr-defined]  # a node of no route
            return
        self.client.open(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            return self._services.chunks.take()
        except BaseException as problem:
            raise no_buffer(self.client.failed, problem) from problem

    def buffer_updated(self, nbytes: int) -> None:
        try:
            chunk = self._services.chunks.read(nbytes)
            if not self.client.is_open or self._problem is not None:
                return
            if isinstance(self._interception, NoInterception):
                self._waiting += self._cutter.cut(chunk)
                self._go_on()
            else:
                self._interception.requests(chunk)
            self.client.received(whole=True, unfinished=self.has_unfinished_frame)
            self._pace()
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self.client.failed(problem)

    def pace_answers(self) -> None:
        for leg in self._legs.values():
            leg.pace()

    # Called by its transport

    def opened(self) -> None:
        if self._services.is_stopping:
            asyncio.get_running_loop().call_soon(self.client.close)
        if not self._services.are_known:
            task = OwnedTask(TaskName.NODE_WAIT, self._services.listener.name)
            self._waiting_for_nodes = begin(task, self._wait_for_nodes, self.client.abort)

    def established(self) -> None:
        self._cutter.limit = self._services.largest_request()

    def resumed(self) -> None:
        if self.client.is_open:
            self._go_on()
            self._pace()

    def closed(self) -> None:
        with ExitStack() as closing:  # the last one first: what gives back what is counted
            closing.callback(self._services.connection_idle, self.client)
            closing.callback(self._forget)
            closing.callback(self._interception.close)
            if self._room is not None:
                closing.callback(self._room.give_back)
            if self._work is not None:
                closing.callback(self._work.close)
            for leg in self._legs.values():
                closing.callback(leg.close)

    def _forget(self) -> None:
        if self.current_request is not None:
            self.current_request.work = None  # break the cycle: the work names the request
            self.current_request = None
        if self._waiting_for_nodes is not None:
            self._waiting_for_nodes.cancel()
        self._interception = NO_INTERCEPTION
        self._room = self._work = self._static = None  # break the cycle: the room names the connection
        self._legs.clear()
        self._waiting.clear()
        self._answers.clear()

    @property
    def is_busy(self) -> bool:
        is_asking = self._work is not None and len(self._work) > 0
        return len(self._answers) > 0 or is_asking or self._interception.is_holding

    @property
    def has_unfinished_frame(self) -> bool:
        return self._cutter.is_unfinished or bool(self._waiting) or self._interception.has_unfinished_frame

    # Called for requests that are answered here

    def answer(self, request: FramedRequest, response: ResponseMessage | None) -> None:
        connection, ticket = self._local_connection, self._local
        assert connection is not None and ticket is not None and response is not None
        connection.answer(request, response)
        self._local = None
        self.leave(ticket, connection.data_to_send())
        asyncio.get_running_loop().call_soon(self.client.guarded(self.resumed))

    def served(self) -> Mapping[ApiKey, Versions]:
        limits = self._services.served()
        versions = {key: Versions(*each, RELAYED_APIS[key].first_flexible) for key, each in limits.items()}
        return {**versions, **self._services.requests.served}

    def features(self) -> Features:
        return with_apis(self._services.features(), self.served())

    # Called by the work of its router, and by legs of static routes

    def expect(self) -> Ticket:
        return self._answers.expect()

    def leave(self, ticket: Ticket, parts: Sequence[Buffer]) -> None:
        self.answered(ticket, parts, is_last=True)

    def answered(self, ticket: Ticket, parts: Sequence[Buffer], *, is_last: bool) -> bool:
        is_next = self._answers.is_next(ticket)
        self._send_answers(self._answers.add(ticket, parts, is_last=is_last))
        if is_last:
            for leg in self._legs.values():
                leg.pace()
            self._check_idle()
        return is_next

    def _send_answers(self, answers: list[Buffer]) -> None:
        if isinstance(self._interception, NoInterception):
            self.client.write(answers)
        else:
            self._interception.answers(answers)
            self._pace()  # they may have ended an authentication, behind which requests waited

    # Called by its interceptors

    def pass_on(self, requests: Sequence[Buffer]) -> None:
        if self._problem is not None:  # they are behind a refused request
            return
        for each in requests:
            self._waiting += self._cutter.cut(memoryview(each))
        self._go_on()

    def send(self, answers: Sequence[Buffer]) -> None:
        self.client.write(list(answers))

    def decided(self) -> None:
        self.resumed()
        self._check_idle()

    def interception_ended(self, problem: ProtocolError | None) -> None:
        if problem is not None:
            self.client.refuse(problem)
        else:
            self.client.abort()

    # Called by the work of its router, and by legs of static routes

    def worked(self) -> None:
        self.resumed()
        self._check_idle()

    def leg_changed(self) -> None:
        self.resumed()

    def leg_ended(self, *, is_within_answer: bool) -> None:
        """Ends the connection because a broker has closed a leg, as in a relay."""
        if is_within_answer:
            self.client.reset()
        else:
            self.client.close()

    # Handling requests

    def _go_on(self) -> None:
        if self._is_going_on:
            return  # the call in progress continues with it
        self._is_going_on = True
        try:
            while self._waiting and self._admit_next():
                piece = self._waiting.popleft()
                if piece.head is not None:
                    self._begin(piece.head)
                self._take(piece)
            if not self._waiting and self._cutter.problem is not None:
                raise self._cutter.problem
        except ProtocolError as problem:
            self._problem = problem
            self._waiting.clear()
            self._check_idle()
        finally:
            self._is_going_on = False

    def _admit_next(self) -> bool:
        client = self.client
        if not client.may_be_served or self.current_request is not None or self._waiting_for_nodes is not None:
            return False
        if self._static is not None:
            return not self._static.is_full
        is_full = self._work is not None and self._work.is_full
        if is_full or len(self._answers) >= MOST_UNANSWERED:
            return False
        head = self._waiting[0].head
        is_whole = head is not None and head.api_key not in self._services.kind.static_routes
        return head is None or not is_whole or (self._room is not None and self._room.take(head.length))

    def _begin(self, head: RequestHead) -> None:
        if head.api_key not in _SERVED_HERE:
            if (reason := self.client.session.refusal(self._listener.now())) is not None:
                raise ProtocolError(reason, f"API {head.api_key} needs an authentication first")
            api_key = self._check_version(head)
            if (route := self._services.kind.static_routes.get(api_key)) is not None:
                self._static = self._leg(route)
                return
            if api_key is not ApiKey.PRODUCE and head.length > LARGEST_TAKEN:
                raise ProtocolError("frame_size", f"a frame of {head.length} bytes; up to {LARGEST_TAKEN} are allowed")
        elif head.length > LARGEST_LOCAL:
            raise ProtocolError("frame_size", f"a frame of {head.length} bytes; up to {LARGEST_LOCAL} are allowed")
        self._head, self._frame = head, bytearray()

    def _check_version(self, head: RequestHead) -> ApiKey:
        """Returns the API of a request, which must be served in this version. Raises ProtocolError."""
        served = self._services.handled.get(head.api_key)  # type: ignore[call-overload]  # an IntEnum's member equals it
        if served is None:
            raise ProtocolError("unknown_api", f"API {head.api_key} is not served here")
        api_key = ApiKey(head.api_key)
        if not served[0] <= head.api_version <= served[1]:
            detail = f"{api_key.name} v{head.api_version} is not in v{served[0]}-{served[1]}"
            raise ProtocolError("unsupported_version", detail)
        return api_key

    def _take(self, piece: Piece[RequestHead]) -> None:
        if (static := self._static) is not None:
            if piece.is_last:
                self._static = None
            static.request(piece)
            return
        self._frame += piece.buffer
        if piece.is_last:
            head, frame, self._head, self._frame = self._head, self._frame, None, bytearray()
            assert head is not None and self._room is not None
            self._room.give_back()
            if head.api_key in _SERVED_HERE:
                self._serve_here(bytes(frame))
            else:
                self._work_of().begin(head, memoryview(frame))

    def _serve_here(self, frame: bytes) -> None:
        connection = self._local_connection = self._local_connection or ServerConnection(_SERVED_HERE, LARGEST_LOCAL)
        self._local = self._answers.expect()
        for request in connection.receive_data(frame):
            self._services.requests.handle(self, request)

    def _work_of(self) -> RouterWork:
        """The work of its router; made at the first request for the router."""
        if self._work is None:
            node = self._services.node(self._node) if self._node is not None else None
            self._work = RouterWork(self._services, self, node)
        return self._work

    # Internals

    def _is_authenticated(self) -> bool:
        """True if the client is authenticated, or need not be."""
        return self.client.session.refusal(self._listener.now()) is None

    def _leg(self, route: RouteName) -> StaticLeg:
        leg = self._legs.get(route)
        if leg is None:
            behind = self._services.routes[route]
            assert isinstance(behind, EntityRouterRuntime), "static routes lead to clusters"
            leaves = behind.leaves
            leaf, known = leaves.default, None
            if (
                self._node is not None
                and (found := self._services.locate(self._node)) is not None
                and found[0] == route
            ):
                leaf, known = found[1], found[2]
            leg = self._legs[route] = StaticLeg(self, leaves, leaf, known, self.client.id)
        return leg

    def _pace(self) -> None:
        is_last = self._services.is_stopping or any(leg.is_session_over for leg in self._legs.values())
        is_full = (
            bool(self._waiting)
            or self._interception.has_waiting_requests
            or (self._static is not None and self._static.is_full)
        )
        is_over = is_last and not self._cutter.is_unfinished
        self.client.pace(has_read_ahead=is_full or is_over or self._problem is not None)

    def _check_idle(self) -> None:
        if self.is_busy or not self.client.is_open:
            return
        if self._problem is not None:
            self.client.refuse(self._problem)
        elif any(leg.is_session_over for leg in self._legs.values()) and not self.has_unfinished_frame:
            self.client.close()
        else:
            self._services.connection_idle(self.client)

    async def _wait_for_nodes(self) -> None:
        try:
            await self._services.wait_until_known()
        except Unreachable as problem:
            log.debug("no route reachable", virtual_cluster=self._listener.name, reason=str(problem))
        self._waiting_for_nodes = None
        self.resumed()
