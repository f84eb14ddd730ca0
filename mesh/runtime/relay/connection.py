"""One client's connection to a relay, and the connection to a broker that carries its requests.

A client comes to a node's address, or to the one that is no node's and stands for any. Its requests pass to the broker
at once, several in flight, and their answers back in the same order. The connection ends when either end is lost: a
client sees what it would see of its broker.

Nothing is read from an end while the other one does not take what has come; so little is in memory of each connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import AUTHENTICATION_TIMEOUT, ClientTransport
from mesh.listener.requests import PendingRequest
from mesh.runtime.interception.stage import NO_INTERCEPTION, NoInterception, interception_of
from mesh.runtime.relay.leg_opener import LINGER, LegOpener
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.topologies import raised_among, taken_requests
from mesh.runtime.relay.traffic import NodeTraffic
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.connection import Request, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.messages import Buffer, ResponseMessage
from mesh.wire.passed_authentication import OF_AUTHENTICATION, PassedAuthentication
from mesh.wire.raised_versions import raised
from mesh.wire.relaying import LARGEST_LOCAL, RelayedConnection, RelayedRequest

SERVED_HERE: Final = {key: (each.versions.lowest, each.versions.highest) for key, each in LISTENER_TABLE.items()}
BEFORE_AUTHENTICATION: Final = OF_AUTHENTICATION | {ApiKey.API_VERSIONS}
UNCOUNTED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Requests that carry records: they are the work itself, and no load beside it."""


class RelayConnection(asyncio.BufferedProtocol):
    """One client's connection. node: whose address the client came to; None for the one that is no node's.

    answered_here: APIs of which no request of a client passes that need not authenticate (any more).
    """

    answered_here: Collection[ApiKey] = OF_AUTHENTICATION

    def __init__(self, services: RelayServices, node: int | None) -> None:
        self.client = ClientTransport(services.listener, self, services.name)
        self.in_work: PendingRequest | None = None
        self._services = services
        self._node = node
        self._listener = services.listener
        self._authentication = PassedAuthentication() if services.is_bare else None
        self._unauthenticated: asyncio.TimerHandle | None = None
        self._has_sasl = services.listener.security.sasl is not None
        self._wire = self._make_wire()
        others = taken_requests(services, lambda: self._opener.place)
        self._interception = interception_of(
            self, services.interceptors, self.client, self._may_be_intercepted, services.limit, others
        )
        self._door: ServerConnection | None = None
        self._is_going_on = False
        self._is_named = False
        """Whether the client named the node, and did not come to its address."""
        self._leg: Leg | None = None
        self._opener = LegOpener(services, self.client.id)
        self._traffic: NodeTraffic = services.traffic.of(-1)
        self._looking: asyncio.Task[None] | None = None
        """While it is not known what the nodes serve, which a client asks before it authenticates."""
        self._unsent: list[Buffer] = []
        """What is to be passed on when there is a leg."""
        self._is_leg_full = False
        self._is_leg_paused = False

    def _make_wire(self) -> RelayedConnection:
        services = self._services
        return RelayedConnection(
            services.served,
            services.advertised,
            BEFORE_AUTHENTICATION if self._has_sasl else frozenset() if services.is_bare else OF_AUTHENTICATION,
            services.addresses,
            self._answered,
            LARGEST_LOCAL,
            self._guard if self._has_sasl else None,
            self._authentication,
            raised if services.topologies is not None else None,
        )

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._node is None:
            self._node = self._services.node_of(transport)
            self._is_named = True
        self._opener.aim(self._node, is_named=self._is_named)
        self.client.open(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._services.chunks.take()

    def buffer_updated(self, nbytes: int) -> None:
        chunk, wire = self._services.chunks.read(nbytes), self._wire
        if not self.client.is_open or wire.problem is not None:
            return
        if isinstance(self._interception, NoInterception):
            self._send(wire.receive_requests(chunk, self._listener.now()))
            self._go_on()
        else:
            self._interception.requests(chunk)
        # Nothing is kept of a frame that is unfinished; so it may take its time, as long as something comes.
        self.client.received(whole=True, unfinished=self.has_unfinished_frame)
        self._pace()
        if self._opener.is_session_over:
            self._check_settled()  # the last request may be one without an answer

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.end()

    def pause_writing(self) -> None:
        self.client.pause_writing()
        self._pace_leg()

    def resume_writing(self) -> None:
        self.client.resume_writing()
        self._pace_leg()

    # Called by its transport

    def opened(self) -> None:
        if self._services.is_stopping:  # its handshake began before that
            asyncio.get_running_loop().call_soon(self.client.close)
        if self._has_sasl and not self._services.nodes.are_known:
            self._looking = asyncio.get_running_loop().create_task(self._first_look(), name="wait for nodes")

    def established(self) -> None:
        if self._authentication is None:
            self._wire.change(local=self.answered_here, limit=self._services.limit())
        else:
            loop = asyncio.get_running_loop()
            self._unauthenticated = loop.call_later(AUTHENTICATION_TIMEOUT, self._close_unauthenticated)
        if self._node is not None and self._leg is None:
            self._open_leg()

    def resumed(self) -> None:
        self._go_on()
        self._pace()

    def closed(self) -> None:
        if self.in_work is not None:
            self.in_work.work = None  # it names the request: no cycle may stay
            self.in_work = None
        for waiting in (self._looking, self._unauthenticated):
            if waiting is not None:
                waiting.cancel()
        self._release_leg(is_orderly=True)
        self._wire.end()
        self._interception.close()
        self._interception = NO_INTERCEPTION
        if self._services.is_stopping:
            self._services.settled(self.client)

    @property
    def is_busy(self) -> bool:
        return self._wire.in_flight > 0 or self._interception.is_holding

    @property
    def has_unfinished_frame(self) -> bool:
        return self._wire.has_unfinished_frame or self._interception.has_unfinished_frame

    # Called for its requests that are answered here

    def answer(self, request: Request, response: ResponseMessage | None) -> None:
        door = self._door
        assert door is not None and response is not None
        door.answer(request, response)
        self._answered_here(door.data_to_send())

    def _answered_here(self, answer: list[Buffer]) -> None:
        self._tell(self._wire.answer(answer))
        if self._is_going_on or self.client.is_ending:
            return
        self._send(self._wire.pass_on(self._listener.now()))
        self._go_on()
        self._pace()
        self._check_settled()

    def served(self) -> Mapping[ApiKey, Versions]:
        """What is served at the address that the client came to, as far as that is known without a leg."""
        services = self._services
        served = services.nodes.served_at(self._node, services.advertised)
        return served if services.topologies is None else raised_among(served, services.advertised)

    def features(self) -> Features:
        """None before the authentication: behind it the node says them itself."""
        return NO_FEATURES

    # Called by its leg

    def leg_opened(self) -> None:
        leg = self._leg
        assert leg is not None
        unsent, self._unsent = self._unsent, []
        leg.send(unsent)
        self._pace_leg()
        self._check_problem()
        self._pace()

    def leg_received(self, chunk: memoryview) -> None:
        try:
            self._tell(self._wire.receive_answers(chunk))
        except ProtocolError as problem:
            self._opener.answered_badly(problem)
            self._release_leg(is_orderly=False)
            self.client.abort()
            return
        if self._unauthenticated is not None:
            self._check_authentication()
        if self._wire.is_blocked:
            self._send(self._wire.pass_on(self._listener.now()))
            self._go_on()
        self._pace()
        if not isinstance(self._interception, NoInterception):
            self._pace_leg()
        self._check_settled()

    def leg_paused(self, *, is_paused: bool) -> None:
        self._is_leg_full = is_paused
        self._pace()

    def leg_lost(self, reason: str) -> None:
        self._opener.lost("closed" if not self._wire.in_flight else "closed_in_flight", reason)
        self._release_leg(is_orderly=False)
        if self._wire.has_unfinished_answer:
            self.client.abort()
        else:
            self.client.close()

    # Called by what opens it

    def leg_reached(self, node: int) -> None:
        self._traffic = self._services.traffic.of(node)

    def not_reached(self) -> None:
        self.client.reset()

    def session_ended(self) -> None:
        self._pace()
        self._check_settled()

    # Called by its interceptors

    def pass_on(self, requests: Sequence[Buffer]) -> None:
        for each in requests:
            self._send(self._wire.receive_requests(memoryview(each), self._listener.now()))
            self._go_on()

    def send(self, answers: Sequence[Buffer]) -> None:
        self.client.write(list(answers))

    def decided(self) -> None:
        self._pace()
        self._pace_leg()
        self._check_settled()

    def interception_ended(self, problem: ProtocolError | None) -> None:
        if problem is not None:
            self.client.refuse(problem)
        else:
            self.client.abort()

    # How

    def _may_be_intercepted(self) -> bool:
        """Whether the client is authenticated, as far as it has to be."""
        if self._authentication is not None:
            return self._authentication.is_done
        return not self._has_sasl or self.client.session.refusal(self._listener.now()) is None

    def _tell(self, answers: list[Buffer]) -> None:
        if isinstance(self._interception, NoInterception):
            self.client.write(answers)
        else:
            self._interception.answers(answers)

    def _pace_leg(self) -> None:
        """Its broker's answers wait for those before them, too."""
        is_paused = self.client.is_writing_paused or self._interception.is_holding_answer
        if self._leg is not None and self._leg.is_open and is_paused is not self._is_leg_paused:
            self._is_leg_paused = is_paused
            self._leg.pause(is_paused=is_paused)

    def _check_settled(self) -> None:
        if not self.is_busy:
            if self._wire.problem is not None:
                self._check_problem()
            if self._services.is_stopping:
                self._services.settled(self.client)
            if self._opener.is_session_over and not self.has_unfinished_frame:
                self.client.close()

    async def _look(self) -> None:
        await self._services.nodes.first_look()

    async def _first_look(self) -> None:
        try:
            await self._look()
        except Exception as problem:  # noqa: BLE001 - a bug is told as where a leg is opened
            self._looking = None
            self._opener.failed(problem)
            self.client.reset()
            return
        self._looking = None
        self.resumed()

    def _guard(self, api_key: int) -> None:
        """On a listener with SASL."""
        if (reason := self.client.session.refusal(self._listener.now())) is not None:
            raise ProtocolError(reason, f"API {api_key} needs an authentication first")

    def _check_authentication(self) -> None:
        """Of a client that authenticates at the cluster itself."""
        assert self._authentication is not None and self._unauthenticated is not None
        if self._authentication.is_done:
            self._unauthenticated.cancel()
            self._unauthenticated = None
            self._wire.change(limit=self._services.limit())

    def _close_unauthenticated(self) -> None:
        detail = f"the cluster has not let the client in within {AUTHENTICATION_TIMEOUT:g} s"
        self.client.refuse(ProtocolError("authentication_timeout", detail))

    def _send(self, buffers: list[Buffer]) -> None:
        if not buffers:
            return
        if self._leg is not None and self._leg.is_open:
            self._leg.send(buffers)
            return
        self._unsent += buffers
        if self._leg is None:
            self._open_leg()

    def _go_on(self) -> None:
        """Serve what is answered here, and pass on what waited for that."""
        if self._wire.local:
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
                self._send(self._wire.pass_on(self._listener.now()))
        except ProtocolError as problem:
            self.client.refuse(problem)
        finally:
            self._is_going_on = False

    def _may_answer_here(self) -> bool:
        return self._looking is None

    def _check_problem(self) -> None:
        """What a client sent before that is answered first, as by a broker."""
        is_settled = not self.is_busy and not self._unsent
        if self._wire.problem is not None and is_settled and self.client.is_open:
            self.client.refuse(self._wire.problem)

    def _serve_here(self, frame: bytes) -> None:
        door = self._door = self._door or ServerConnection(SERVED_HERE, LARGEST_LOCAL)
        for request in door.receive_data(frame):
            self._services.requests.handle(self, request)
        if refusal := door.data_to_send():  # of an ApiVersions in a version that is not known
            self._tell(self._wire.answer(refusal))
            self.client.rest(self._listener.admission.take(self.client))

    def _pace(self) -> None:
        wire = self._wire
        is_full = self._is_leg_full or bool(self._unsent) or wire.is_blocked or self._interception.has_waiting_requests
        is_last = (self._services.is_stopping or self._opener.is_session_over) and not self.has_unfinished_frame
        self.client.pace(has_read_ahead=is_full or is_last or wire.problem is not None)

    def _answered(self, request: RelayedRequest) -> None:
        self._traffic.add(request, self._listener.now())
        if request.api_key not in UNCOUNTED and not request.is_local:
            rest = self._listener.admission.take(self.client)
            if rest > 0:
                self._listener.metrics.throttled(self._listener.name, request.api_key.name)
                self.client.rest(rest)

    def _open_leg(self) -> None:
        self._leg = Leg(self, self._services.chunks)
        self._opener.open(self, self._leg)

    def _release_leg(self, *, is_orderly: bool) -> None:
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.close(linger=LINGER if is_orderly else 0.0)
        self._opener.release()
