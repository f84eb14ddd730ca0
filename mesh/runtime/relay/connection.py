"""The connection of one client to a relay, and the connection to a broker that carries its requests.

A client connects to the address of a node, or to the bootstrap address, which stands for any node. Its requests pass to
the broker at once, several in flight, and the responses come back in the same order. When one end is lost, the
connection ends: a client sees the same as at its broker.

Nothing is read from one end while the other one does not accept data, so each connection needs little memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import AUTHENTICATION_TIMEOUT, ClientTransport
from mesh.listener.guarded_connection import GuardedConnection
from mesh.listener.requests import PendingRequest
from mesh.runtime.interception.stage import (
    NO_INTERCEPTION,
    Interception,
    InterceptionHandler,
    NoInterception,
    interception_of,
)
from mesh.runtime.relay.leg_opener import LINGER, LegOpener
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.splicing import RequestSplicing, plain_socket
from mesh.runtime.relay.topologies import interception_handlers
from mesh.runtime.relay.traffic import NodeTraffic
from mesh.tasks import OwnedTask, TaskName, begin, no_buffer
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.messages import Buffer, ResponseMessage
from mesh.wire.passed_authentication import OF_AUTHENTICATION, PassedAuthentication
from mesh.wire.raised_versions import raised
from mesh.wire.relaying import LARGEST_LOCAL, RelayedConnection, RelayedRequest

SERVED_HERE: Final = {key: (each.versions.lowest, each.versions.highest) for key, each in LISTENER_TABLE.items()}
BEFORE_AUTHENTICATION: Final = OF_AUTHENTICATION | {ApiKey.API_VERSIONS}
UNCHARGED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Requests that move or acknowledge records. The quota of requests does not charge them: they are the work itself,
not load beside it."""


class RelayConnection(GuardedConnection, asyncio.BufferedProtocol):
    """The connection of one client. node: the node whose address the client connected to; None for the bootstrap
    address.

    local_apis: APIs whose requests the mesh answers itself once the client has authenticated, if it must. Unused if
    clients authenticate at the cluster.
    """

    local_apis: Collection[ApiKey] = OF_AUTHENTICATION

    def __init__(self, services: RelayServices, node: int | None) -> None:
        self.client = ClientTransport(services.listener, self, services.name)
        self.current_request: PendingRequest | None = None
        self._services = services
        self._node = node
        self._listener = services.listener
        self._authentication = PassedAuthentication() if services.passes_authentication else None
        self._unauthenticated: asyncio.TimerHandle | None = None
        self._has_sasl = services.listener.security.sasl is not None
        self._wire = self._make_wire()
        self._interception = self._make_interception()
        self._local_connection: ServerConnection | None = None
        self._is_going_on = False
        self._is_named = False
        """True if the client named the node in its TLS handshake, and did not connect to an address of the node."""
        self._leg: Leg | None = None
        self._opener = LegOpener(services, self.client.id)
        self._traffic: NodeTraffic = services.traffic.of(-1)
        self._waiting_for_nodes: asyncio.Task[None] | None = None
        """Waits for the versions that the nodes serve. A client asks for versions before it authenticates."""
        self._unsent: list[Buffer] = []
        """Bytes to pass on when there is a leg."""
        self._is_leg_full = False
        self._is_leg_reading_paused = False
        self._splicing = RequestSplicing(services.pipes, services.listener.admission.count_broker_connections)

    def _make_wire(self) -> RelayedConnection:
        services = self._services
        return RelayedConnection(
            services.served,
            services.advertised,
            BEFORE_AUTHENTICATION
            if self._has_sasl
            else frozenset()
            if services.passes_authentication
            else OF_AUTHENTICATION,
            services.addresses,
            self._answered,
            LARGEST_LOCAL,
            self._guard if self._has_sasl else None,
            self._authentication,
            raised if services.topologies is not None else None,
        )

    def _make_interception(self) -> Interception | NoInterception:
        services = self._services
        others = self._interception_handlers()
        return interception_of(
            self, services.interceptors, self.client, self._is_authenticated, services.largest_request, others
        )

    def _interception_handlers(self) -> Sequence[InterceptionHandler]:
        """The handlers of requests about topology descriptions."""
        return interception_handlers(self._services, lambda: self._opener.node)

    # Called by the event loop

    def made(self, transport: asyncio.BaseTransport) -> None:
        if self._node is None:
            self._node = self._services.node_of(transport)
            self._is_named = True
        self._opener.set_node(self._node, is_named=self._is_named)
        self.client.open(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            return self._splicing.first(self._services.chunks.take())
        except BaseException as problem:
            raise no_buffer(self.client.failed, problem) from problem

    def buffer_updated(self, nbytes: int) -> None:
        try:
            chunk, wire = self._services.chunks.read(nbytes), self._wire
            if not self.client.is_open or wire.problem is not None:
                return
            if isinstance(self._interception, NoInterception):
                passed = wire.receive_requests(chunk, self._listener.now())
                self._send_to_broker(self._splicing.begin(self, passed, wire.unread))
                if not self.client.is_open:
                    return
                self._go_on()
            else:
                self._interception.requests(chunk)
            # Most of an unfinished frame passes on at once, and the rest is bounded. So a frame may take its time as
            # long as bytes come.
            self.client.received(whole=True, unfinished=self.has_unfinished_frame)
            self._pace()
            if self._opener.is_session_over:
                self._check_idle()  # the last request may be one without a response
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self.client.failed(problem)

    # Called by its transport

    def opened(self) -> None:
        if self._services.is_stopping:  # its handshake began before the stop
            asyncio.get_running_loop().call_soon(self.client.close)
        if self._has_sasl and not self._services.nodes.are_known:
            task = OwnedTask(TaskName.NODE_WAIT, self._listener.name)
            self._waiting_for_nodes = begin(task, self._wait_for_nodes, self.client.abort)

    def established(self) -> None:
        if self._authentication is None:
            self._wire.change(local=self.local_apis, limit=self._services.largest_request())
        else:
            loop = asyncio.get_running_loop()
            self._unauthenticated = loop.call_later(
                AUTHENTICATION_TIMEOUT, self.client.guarded(self._close_unauthenticated)
            )
        if self._node is not None and self._leg is None:
            self._open_leg()

    def resumed(self) -> None:
        self._go_on()
        self._pace()

    def closed(self) -> None:
        self._wire.end()  # this and the next step come first: they give back what is counted
        self._release_leg(is_orderly=True)
        if self.current_request is not None:
            self.current_request.work = None  # break the cycle: the work names the request
            self.current_request = None
        for waiting in (self._waiting_for_nodes, self._unauthenticated):
            if waiting is not None:
                waiting.cancel()
        self._interception.close()
        self._interception = NO_INTERCEPTION
        if self._services.is_stopping:
            self._services.connection_idle(self.client)

    @property
    def is_busy(self) -> bool:
        return self._wire.in_flight > 0 or self._interception.is_holding

    @property
    def has_unfinished_frame(self) -> bool:
        return self._wire.has_unfinished_frame or self._interception.has_unfinished_frame

    # Called for requests that are answered here

    def answer(self, request: FramedRequest, response: ResponseMessage | None) -> None:
        connection = self._local_connection
        assert connection is not None and response is not None
        connection.answer(request, response)
        self._send_local_answer(connection.data_to_send())

    def _send_local_answer(self, answer: list[Buffer]) -> None:
        self._send_answers(self._wire.answer(answer))
        if self._is_going_on or self.client.is_ending:
            return
        self._send_to_broker(self._wire.pass_on(self._listener.now()))
        self._go_on()
        self._pace()
        self._check_idle()

    def served(self) -> Mapping[ApiKey, Versions]:
        """The APIs served at the client's address, as far as they are known without a leg."""
        return self._services.served_at(self._node, self._services.advertised)

    def features(self) -> Features:
        """Returns no features: a client asks here before it authenticates. After that the node reports its features
        itself."""
        return NO_FEATURES

    # Called by its leg

    def leg_opened(self) -> None:
        leg = self._leg
        assert leg is not None
        unsent, self._unsent = self._unsent, []
        leg.send(unsent)
        self.pace_answers()
        self._check_problem()
        self._pace()

    def leg_received(self, chunk: memoryview) -> None:
        try:
            answers = self._wire.receive_answers(chunk)
            if self._unauthenticated is not None:
                self._check_authentication()  # before the answers let the requests behind them continue
            self._send_answers(answers)
        except ProtocolError as problem:
            self._opener.answered_badly(problem)
            self._release_leg(is_orderly=False)
            self.client.abort()
            return
        if self._wire.is_blocked:
            self._send_to_broker(self._wire.pass_on(self._listener.now()))
            self._go_on()
        self._pace()
        if not isinstance(self._interception, NoInterception):
            self.pace_answers()
        self._check_idle()

    def leg_full(self, *, is_full: bool) -> None:
        self._is_leg_full = is_full
        self._pace()

    def leg_failed(self, problem: BaseException) -> None:
        self.client.failed(problem)

    def leg_lost(self, reason: str) -> None:
        self._opener.lost("closed" if not self._wire.in_flight else "closed_in_flight", reason)
        self._release_leg(is_orderly=False)
        if self._wire.has_unfinished_answer:
            self.client.abort()
        else:
            self.client.close()

    # Called while the rest of a request is spliced

    def plain_ends(self) -> tuple[int, int] | None:
        leg = self._leg
        source, target = plain_socket(self.client.transport), plain_socket(leg.transport if leg is not None else None)
        return None if source is None or target is None else (source, target)

    def is_leg_free(self) -> bool:
        transport = self._leg.transport if self._leg is not None else None
        return transport is not None and not transport.get_write_buffer_size()

    def spliced(self, count: int) -> None:
        self._wire.passed(count)
        self.client.received(whole=True, unfinished=self.has_unfinished_frame)

    def splice_ended(self) -> None:
        self._pace()
        if self._opener.is_session_over:
            self._check_idle()

    # Called by the opener of its leg

    def leg_reached(self, node: int) -> None:
        self._traffic = self._services.traffic.of(node)

    def not_reached(self) -> None:
        self.client.reset()

    def session_ended(self) -> None:
        self._pace()
        self._check_idle()

    # Called by its interceptors

    def pass_on(self, requests: Sequence[Buffer]) -> None:
        for each in requests:
            if not self.client.is_open:  # one of them was refused
                return
            self._send_to_broker(self._wire.receive_requests(memoryview(each), self._listener.now()))
            self._go_on()

    def send(self, answers: Sequence[Buffer]) -> None:
        self.client.write(list(answers))

    def decided(self) -> None:
        self._pace()
        self.pace_answers()
        self._check_idle()

    def interception_ended(self, problem: ProtocolError | None) -> None:
        if problem is not None:
            self.client.refuse(problem)
        else:
            self.client.abort()

    # Internals

    def _is_authenticated(self) -> bool | None:
        """Returns whether the client has authenticated, or need not. None if only the broker knows."""
        if self._authentication is not None:
            return self._authentication.is_done or None
        return not self._has_sasl or self.client.session.refusal(self._listener.now()) is None

    def _send_answers(self, answers: list[Buffer]) -> None:
        if isinstance(self._interception, NoInterception):
            self.client.write(answers)
        else:
            self._interception.answers(answers)

    def pace_answers(self) -> None:
        """Pauses or resumes the leg. Responses of the broker also wait while an earlier one is held up."""
        is_paused = self.client.is_writing_paused or self._interception.is_holding_answer
        if self._leg is not None and self._leg.is_open and is_paused is not self._is_leg_reading_paused:
            self._is_leg_reading_paused = is_paused
            self._leg.pause(is_paused=is_paused)

    def _check_idle(self) -> None:
        if not self.is_busy:
            if self._wire.problem is not None:
                self._check_problem()
            if self._services.is_stopping:
                self._services.connection_idle(self.client)
            if self._opener.is_session_over and not self.has_unfinished_frame:
                self.client.close()

    async def _wait_until_known(self) -> None:
        await self._services.nodes.wait_until_known()

    async def _wait_for_nodes(self) -> None:
        try:
            await self._wait_until_known()
        except Exception as problem:  # noqa: BLE001 - a bug is logged like one at the opening of a leg
            self._waiting_for_nodes = None
            self._opener.failed(problem)
            self.client.reset()
            return
        self._waiting_for_nodes = None
        self.resumed()

    def _guard(self, api_key: int) -> None:
        """Checks that a client may send a request on a listener with SASL. Raises ProtocolError."""
        if (reason := self.client.session.refusal(self._listener.now())) is not None:
            raise ProtocolError(reason, f"API {api_key} needs an authentication first")

    def _check_authentication(self) -> None:
        """Ends the time limit of a client that authenticates at the cluster itself, when it has done so."""
        assert self._authentication is not None and self._unauthenticated is not None
        if self._authentication.is_done:
            self._unauthenticated.cancel()
            self._unauthenticated = None
            self._wire.change(limit=self._services.largest_request())

    def _close_unauthenticated(self) -> None:
        detail = f"the cluster has not let the client in within {AUTHENTICATION_TIMEOUT:g} s"
        self.client.refuse(ProtocolError("authentication_timeout", detail))

    def _send_to_broker(self, buffers: list[Buffer]) -> None:
        if not buffers:
            return
        if self._leg is not None and self._leg.is_open:
            self._leg.send(buffers)
            return
        self._unsent += buffers
        if self._leg is None:
            self._open_leg()

    def _go_on(self) -> None:
        """Answers local requests, and passes on the requests that waited for them."""
        if self._wire.local and not self._is_going_on:
            self._serve_local()
        if self._wire.problem is not None:
            self._check_problem()

    def _serve_local(self) -> None:
        self._is_going_on = True
        try:
            while self._wire.local and self.client.may_be_served and self._may_answer_here():
                self._serve_here(self._wire.local.pop())
                if self.client.is_ending:
                    break
                self._send_to_broker(self._wire.pass_on(self._listener.now()))
        except ProtocolError as problem:
            self.client.refuse(problem)
        finally:
            self._is_going_on = False

    def _may_answer_here(self) -> bool:
        return self._waiting_for_nodes is None

    def _check_problem(self) -> None:
        """Ends the connection because of a protocol error. Requests that the client sent before the error are answered
        first, as by a broker."""
        is_idle = not self.is_busy and not self._unsent
        if self._wire.problem is not None and is_idle and self.client.is_open:
            self.client.refuse(self._wire.problem)

    def _serve_here(self, frame: bytes) -> None:
        connection = self._local_connection = self._local_connection or ServerConnection(SERVED_HERE, LARGEST_LOCAL)
        for request in connection.receive_data(frame):
            self._services.requests.handle(self, request)

    def _pace(self) -> None:
        wire = self._wire
        is_full = self._is_leg_full or bool(self._unsent) or wire.is_blocked or self._interception.has_waiting_requests
        is_last = (self._services.is_stopping or self._opener.is_session_over) and not self.has_unfinished_frame
        self.client.pace(has_read_ahead=is_full or is_last or wire.problem is not None)

    def _answered(self, request: RelayedRequest) -> None:
        self._traffic.add(request, self._listener.now())
        if request.api_key not in UNCHARGED and not request.is_local:
            throttle = self._listener.admission.charge_request(self.client)
            if throttle > 0:
                self._listener.metrics.throttled(self._listener.name, request.api_key.name)
                self.client.throttle(throttle)

    def _open_leg(self) -> None:
        self._leg = Leg(self, self._services.chunks)
        self._opener.open(self, self._leg)

    def _release_leg(self, *, is_orderly: bool) -> None:
        leg, self._leg = self._leg, None
        self._opener.release()
        try:
            self._splicing.close()
        finally:
            if leg is not None:
                leg.close(linger=LINGER if is_orderly else 0.0)
