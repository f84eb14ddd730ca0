"""One client's connection to a relay, and the connection to a broker that carries its requests.

A client comes to a node's address, or to the one that is no node's and stands for any. Its requests pass to the broker
at once, several in flight, and their answers back in the same order. The connection ends when either end is lost: a
client sees what it would see of its broker.

Nothing is read from an end while the other one does not take what has come; so little is in memory of each connection.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import AUTHENTICATION_TIMEOUT, ClientTransport
from mesh.listener.requests import PendingRequest
from mesh.runtime.relay.nodes import RelayNode
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.traffic import NodeTraffic
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.connection import Request, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer, ResponseMessage
from mesh.wire.passed_authentication import OF_AUTHENTICATION, PassedAuthentication
from mesh.wire.relaying import LARGEST_LOCAL, RelayedConnection, RelayedRequest

log = get_logger(__name__)

LINGER: Final = 10.0
"""Seconds in which a broker takes what its client had sent before it left."""
SERVED_HERE: Final = {key: (each.versions.lowest, each.versions.highest) for key, each in LISTENER_TABLE.items()}
BEFORE_AUTHENTICATION: Final = OF_AUTHENTICATION | {ApiKey.API_VERSIONS}
UNCOUNTED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Requests that carry records: they are the work itself, and no load beside it."""


class RelayConnection(asyncio.BufferedProtocol):
    """One client's connection. node: whose address the client came to; None for the one that is no node's."""

    def __init__(self, services: RelayServices, node: int | None) -> None:
        self.client = ClientTransport(services.listener, self)
        self.in_work: PendingRequest | None = None
        self._services = services
        self._node = node
        self._listener = services.listener
        self._authentication = PassedAuthentication() if services.is_bare else None
        self._unauthenticated: asyncio.TimerHandle | None = None
        self._has_sasl = has_sasl = services.listener.security.sasl is not None
        self._wire = RelayedConnection(
            services.served,
            services.advertised,
            BEFORE_AUTHENTICATION if has_sasl else frozenset() if services.is_bare else OF_AUTHENTICATION,
            services.nodes,
            self._answered,
            LARGEST_LOCAL,
            self._guard if has_sasl else None,
            self._authentication,
        )
        self._door: ServerConnection | None = None
        self._is_going_on = False
        self._is_named = False
        """Whether the client named the node, and did not come to its address."""
        self._leg: Leg | None = None
        self._reached: RelayNode | None = None
        self._traffic: NodeTraffic = services.traffic.of(-1)
        self._opening: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        """While it is not known what the nodes serve, which a client asks before it authenticates."""
        self._unsent: list[Buffer] = []
        """What is to be passed on when there is a leg."""
        self._is_leg_full = False
        self._session: asyncio.TimerHandle | None = None
        self._is_session_over = False

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._node is None:
            self._node = self._services.node_of(transport)
            self._is_named = True
        self.client.open(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._services.chunks.take()

    def buffer_updated(self, nbytes: int) -> None:
        chunk = self._services.chunks.read(nbytes)
        if not self.client.is_open or self._wire.problem is not None:
            return
        self._send(self._wire.receive_requests(chunk, self._listener.now()))
        self._go_on()
        # Nothing is kept of a frame that is unfinished; so it may take its time, as long as something comes.
        self.client.received(whole=True, unfinished=self._wire.has_unfinished_frame)
        self._pace()
        if self._is_session_over:
            self._check_settled()  # the last request may be one without an answer

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.end()

    def pause_writing(self) -> None:
        self.client.pause_writing()
        if self._leg is not None:
            self._leg.pause(is_paused=True)

    def resume_writing(self) -> None:
        self.client.resume_writing()
        if self._leg is not None:
            self._leg.pause(is_paused=False)

    # Called by its transport

    def opened(self) -> None:
        if self._has_sasl and not self._services.nodes.are_known:
            self._looking = asyncio.get_running_loop().create_task(self._first_look(), name="wait for nodes")

    def established(self) -> None:
        if self._authentication is None:
            self._wire.change(local=OF_AUTHENTICATION, limit=self._services.limit())
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
        for waiting in (self._opening, self._looking, self._unauthenticated, self._session):
            if waiting is not None:
                waiting.cancel()
        self._release_leg(is_orderly=True)
        self._wire.end()
        self._services.settled(self.client)

    @property
    def is_busy(self) -> bool:
        return self._wire.in_flight > 0

    @property
    def has_unfinished_frame(self) -> bool:
        return self._wire.has_unfinished_frame

    # Called for its requests that are answered here

    def answer(self, request: Request, response: ResponseMessage | None) -> None:
        door = self._door
        assert door is not None and response is not None
        door.answer(request, response)
        self.client.write(self._wire.answer(door.data_to_send()))
        if self._is_going_on or self.client.is_ending:
            return
        self._send(self._wire.pass_on(self._listener.now()))
        self._go_on()
        self._pace()
        self._check_settled()

    def served(self) -> Mapping[ApiKey, Versions]:
        """What is served at the address that the client came to, as far as that is known without a leg."""
        return self._services.nodes.served_at(self._node, self._services.advertised)

    # Called by its leg

    def leg_opened(self) -> None:
        leg = self._leg
        assert leg is not None
        unsent, self._unsent = self._unsent, []
        leg.send(unsent)
        if self.client.is_writing_paused:
            leg.pause(is_paused=True)
        self._pace()

    def leg_received(self, chunk: memoryview) -> None:
        try:
            self.client.write(self._wire.receive_answers(chunk))
        except ProtocolError as problem:
            self._answered_badly(problem)
            return
        if self._unauthenticated is not None:
            self._check_authentication()
        if self._wire.is_blocked:
            self._send(self._wire.pass_on(self._listener.now()))
            self._go_on()
        self._pace()
        self._check_settled()

    def leg_paused(self, *, is_paused: bool) -> None:
        self._is_leg_full = is_paused
        self._pace()

    def leg_lost(self, reason: str) -> None:
        self._lost("closed" if not self._wire.in_flight else "closed_in_flight", reason)
        self._release_leg(is_orderly=False)
        if self._wire.has_unfinished_answer:
            self.client.abort()
        else:
            self.client.close()

    # How

    def _check_settled(self) -> None:
        if not self._wire.in_flight:
            self._check_problem()
            self._services.settled(self.client)
            if self._is_session_over and not self._wire.has_unfinished_frame:
                self.client.close()

    async def _first_look(self) -> None:
        try:
            await self._services.nodes.first_look()
        except Unreachable as problem:
            self._looking = None
            self._lost("unreachable", str(problem))
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
        self._is_going_on = True
        try:
            while self._wire.local and self.client.may_be_served and self._looking is None:
                self._serve_here(self._wire.local.pop())
                if self.client.is_ending:
                    break
                self._send(self._wire.pass_on(self._listener.now()))
        except ProtocolError as problem:
            self.client.refuse(problem)
        finally:
            self._is_going_on = False
        self._check_problem()

    def _check_problem(self) -> None:
        """What a client sent before that is answered first, as by a broker."""
        if self._wire.problem is not None and not self._wire.in_flight and self.client.is_open:
            self.client.refuse(self._wire.problem)

    def _serve_here(self, frame: bytes) -> None:
        door = self._door = self._door or ServerConnection(SERVED_HERE, LARGEST_LOCAL)
        for request in door.receive_data(frame):
            self._services.requests.handle(self, request)
        if refusal := door.data_to_send():  # of an ApiVersions in a version that is not known
            self.client.write(self._wire.answer(refusal))
            self.client.rest(self._listener.admission.take(self.client))

    def _pace(self) -> None:
        wire = self._wire
        is_full = self._is_leg_full or bool(self._unsent) or wire.is_blocked
        is_last = (self._services.is_stopping or self._is_session_over) and not wire.has_unfinished_frame
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
        self._opening = asyncio.get_running_loop().create_task(self._reach(self._leg), name="open a leg")

    async def _reach(self, leg: Leg) -> None:
        services = self._services
        try:
            reached, ends_at = await services.nodes.open_leg(self._node, leg, is_bare=services.is_bare)
        except Unreachable as problem:
            self._opening = None
            self._lost("unreachable", str(problem))
            self.client.reset()
            return
        self._opening = None
        if self.client.is_open:
            self._reached = reached
            reached.legs += 1
            if ends_at < math.inf:
                self._session = asyncio.get_running_loop().call_at(ends_at, self._end_session)
            self._traffic = services.traffic.of(reached.id)

    def _end_session(self) -> None:
        """The broker closes the connection at the next request after the session of our credentials has ended
        (KIP-368). So no further request is read from now on, and the connection is closed when those before are
        answered."""
        self._is_session_over = True
        self._pace()
        self._check_settled()

    def _release_leg(self, *, is_orderly: bool) -> None:
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.close(linger=LINGER if is_orderly else 0.0)
        if self._reached is not None:
            self._reached.legs -= 1
            self._reached = None

    def _lost(self, kind: str, reason: str) -> None:
        node = self._reached.id if self._reached is not None else self._node
        if node is None or (self._is_named and node not in self._services.nodes.known):
            node = -1  # clients may name any
        self._services.traffic.leg_lost(node, kind)
        log.debug(
            "a connection to a broker was lost",
            virtual_cluster=self._listener.name,
            connection=self.client.id,
            node=node,
            reason=reason,
        )

    def _answered_badly(self, problem: ProtocolError) -> None:
        self._lost(problem.reason, str(problem))
        log.warning(
            "a connection was closed: its broker's answer is none",
            virtual_cluster=self._listener.name,
            connection=self.client.id,
            node=self._reached.id if self._reached is not None else self._node,
            reason=problem.reason,
            detail=str(problem),
        )
        self._release_leg(is_orderly=False)
        self.client.abort()
