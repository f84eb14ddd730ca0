"""The connection of one client until its target is chosen.

Only the head of its first request is read. After the choice the target takes over the transport, with the bytes that
were read. If the choice needs the principal of SASL, the mesh first answers ApiVersions here and authenticates the
client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from struct import Struct
from typing import Final, cast

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import ClientTransport
from mesh.listener.guarded_connection import GuardedConnection
from mesh.listener.requests import PendingRequest
from mesh.listener.security import peer_certificate, subject_of
from mesh.routing.spi import Client, Undecided
from mesh.runtime.connection_router.services import ChosenRoute, ConnectionRouterServices, RouteConnection
from mesh.tasks import OwnedTask, TaskName, begin, no_buffer
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.messages import ResponseMessage
from mesh.wire.passing import REQUEST_HEAD
from mesh.wire.reader import INT32
from mesh.wire.relaying import LARGEST_LOCAL

_SERVED: Final = {key: (each.versions.lowest, each.versions.highest) for key, each in LISTENER_TABLE.items()}
_ID_LENGTH: Final = Struct(">h")
_LENGTH: Final = INT32.size
_HEAD_BYTES: Final = 512
"""Bytes read for the head of a request, unless its client id is longer."""


class ChoosingConnection(GuardedConnection, asyncio.BufferedProtocol):
    """The connection of a client whose target is not chosen yet. node: the id of the node that the client connected to,
    as clients see it; None for an address that is no node's."""

    def __init__(self, services: ConnectionRouterServices, node: int | None) -> None:
        self.client = ClientTransport(services.listener, self)
        self.current_request: PendingRequest | None = None
        self._services = services
        self._node = node
        self._transport: asyncio.Transport | None = None
        self._received = bytearray(_HEAD_BYTES)
        self._count = 0
        """The number of bytes received and not handled."""
        self._client_id: str | None = None
        self._local_connection: ServerConnection | None = None
        """Handles requests until the client has authenticated."""
        self._waiting: asyncio.Task[None] | None = None
        """Waits until the target is ready."""

    # Called by the event loop

    def made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._node is None:
            self._node = self._services.node_of(transport)
        self.client.open(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            if self._count == len(self._received):  # reading was not paused in time
                self._make_room(self._count + _HEAD_BYTES)
            return memoryview(self._received)[self._count :]
        except BaseException as problem:
            raise no_buffer(self.client.failed, problem) from problem

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._count += nbytes
            if not self.client.is_open or self._waiting is not None:
                return
            if self._local_connection is None:
                self._read_head()
            else:
                self._serve()
            if self.client.is_open:
                self.client.received(whole=False, unfinished=self.has_unfinished_frame)
        except ProtocolError as problem:
            self.client.refuse(problem)
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self.client.failed(problem)

    # Called by its transport

    def opened(self) -> None:
        if self._services.is_stopping:
            asyncio.get_running_loop().call_soon(self.client.close)

    def established(self) -> None:
        """Does nothing: `answer` chooses the target when it has sent the response to the authentication."""

    def resumed(self) -> None:
        if self._local_connection is not None and self.client.is_open and self._waiting is None:
            try:
                self._serve()
            except ProtocolError as problem:
                self.client.refuse(problem)

    def closed(self) -> None:
        self._transport = None
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self.current_request is not None:
            self.current_request.work = None  # break the cycle: the work names the request
            self.current_request = None

    @property
    def is_busy(self) -> bool:
        return self.current_request is not None

    @property
    def has_unfinished_frame(self) -> bool:
        return self._count > 0 and self.current_request is None

    # Called for requests that are answered before the choice

    def answer(self, request: FramedRequest, response: ResponseMessage | None) -> None:
        connection = self._local_connection
        assert connection is not None and response is not None
        connection.answer(request, response)
        self.client.write(connection.data_to_send())
        if self.client.session.is_established and not self.client.is_ending:
            self._choose()
        else:
            asyncio.get_running_loop().call_soon(self.client.guarded(self.resumed))

    def served(self) -> Mapping[ApiKey, Versions]:
        """The APIs that all routes serve."""
        return self._services.served()

    def features(self) -> Features:
        """Returns no features: the client sends ApiVersions again to its target."""
        return NO_FEATURES

    # Internals

    def _read_head(self) -> None:
        """Chooses the target once the head of the first request is complete."""
        if self._count < REQUEST_HEAD.size + _ID_LENGTH.size:
            return
        length = REQUEST_HEAD.unpack_from(self._received)[0]
        (id_length,) = _ID_LENGTH.unpack_from(self._received, REQUEST_HEAD.size)
        begin = REQUEST_HEAD.size + _ID_LENGTH.size
        end = begin + max(id_length, 0)
        if length < end - _LENGTH:
            raise ProtocolError("invalid_length", f"a request of {length} bytes has no room for its own head")
        if self._count < end:
            self._make_room(end)
            return
        if id_length >= 0:
            self._client_id = self._received[begin:end].decode(errors="replace")
        self._choose()

    def _make_room(self, size: int) -> None:
        if size > len(self._received):
            before, self._received = self._received, bytearray(size)  # the event loop may still hold the last buffer
            self._received[: self._count] = before[: self._count]

    def _choose(self) -> None:
        assert self._transport is not None
        services, client = self._services, self.client
        certificate = peer_certificate(self._transport)
        try:
            subject = subject_of(certificate) if certificate is not None else None
        except ProtocolError as problem:
            client.refuse(problem)
            return
        who = Client(client.session.principal, self._client_id, client.client_host, services.listener.name, subject)
        match services.choose(who, self._node):
            case Undecided() if self._local_connection is None and client.session.principal is None:
                self._local_connection = ServerConnection(_SERVED, LARGEST_LOCAL)
                self._serve()
            case Undecided():
                client.refuse(ProtocolError("no_route", "its principal is known, and it is undecided still"))
            case ChosenRoute(ready=asyncio.Event() as ready) if not ready.is_set():
                self.client.pace(has_read_ahead=True)
                task = OwnedTask(TaskName.CHOICE, services.listener.name)
                self._waiting = begin(task, partial(self._choose_when, ready), client.abort)
            case ChosenRoute(route=route, accept=accept):
                handed = accept()
                services.route_chosen(route, handed.client)
                self._hand_over(handed)
            case reason:
                client.refuse(ProtocolError("no_route", reason))

    async def _choose_when(self, ready: asyncio.Event) -> None:
        await ready.wait()
        self._waiting = None
        self.client.pace(has_read_ahead=False)
        self._choose()

    def _serve(self) -> None:
        """Handles the requests of a client that has to authenticate, one after the other."""
        while self._count >= _LENGTH and self.current_request is None and self.client.may_be_served:
            (length,) = INT32.unpack_from(self._received)
            if not 0 <= length <= LARGEST_LOCAL:
                raise ProtocolError("frame_size", f"a request of {length} bytes before the authentication")
            end = _LENGTH + length
            self._make_room(end)
            if self._count < end:
                break
            frame = bytes(self._received[:end])
            self._received[: self._count - end] = self._received[end : self._count]
            self._count -= end
            self._serve_one(frame)
        if self._transport is not None:
            self.client.pace(has_read_ahead=self.current_request is not None and self._count == len(self._received))

    def _serve_one(self, frame: bytes) -> None:
        assert self._local_connection is not None
        self.client.received(whole=True, unfinished=self._count > 0)
        for request in self._local_connection.receive_data(frame):
            self._services.requests.handle(self, request)

    def _hand_over(self, handed: RouteConnection) -> None:
        """Hands the transport over to the connection of the target, with the bytes that were received."""
        transport, received = self._transport, memoryview(bytes(self._received[: self._count]))
        assert transport is not None
        self._count = 0
        transport.pause_reading()  # the event loop looks at the type of the protocol when it starts reading
        handed.client.take_over(self.client)
        protocol = cast("asyncio.Protocol | asyncio.BufferedProtocol", handed)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        while received and handed.client.is_open:
            received = received[_give(protocol, received) :]
        if handed.client.is_open and not handed.client.is_reading_paused and not transport.is_closing():
            transport.resume_reading()


def _give(protocol: asyncio.Protocol | asyncio.BufferedProtocol, received: memoryview) -> int:
    """Gives received bytes to a protocol. Returns the number of bytes that it took."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        protocol.data_received(bytes(received))
        return len(received)
    buffer = memoryview(protocol.get_buffer(len(received)))
    count = min(len(buffer), len(received))
    buffer[:count] = received[:count]
    protocol.buffer_updated(count)
    return count
