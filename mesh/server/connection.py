"""One downstream connection: bytes to requests, results to bytes. The only thing it decides is when to stop reading.

Requests of a connection are handled one after the other, as a Kafka broker does. A Fetch that is parked is answered
early when another request queues up behind it: some clients send heartbeats and commits on the same connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from mesh.pool.effects import ConnectionId
from mesh.wire.apis import ApiKey
from mesh.wire.connection import Request, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import RequestMessage, ResponseMessage

if TYPE_CHECKING:
    from mesh.server.virtual_cluster import VirtualClusterServer

MOST_QUEUED = 100
"""Requests that may wait behind the one in work; beyond it nothing is read from the connection."""


class DownstreamConnection(asyncio.Protocol):
    def __init__(self, server: VirtualClusterServer, id: ConnectionId) -> None:
        self.id = id
        self.client_host = ""
        self._server = server
        self._wire = ServerConnection(server.versions)
        self._queue: deque[Request] = deque()
        self._current: Request | None = None
        self._message: RequestMessage | None = None
        self._transport: asyncio.Transport | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._working = False

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        self._server.connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._queue.extend(self._wire.receive_data(data))
        except ProtocolError as problem:
            self._refuse(problem)
            return
        self._flush()
        if not self._reading_paused and len(self._queue) > MOST_QUEUED and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
        self._work()
        if self._queue and self._current is not None and self._current.api_key is ApiKey.FETCH:
            self._server.hurry(self._current)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._queue.clear()
        self._server.disconnected(self)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._work()

    # Called by the server

    def answer(self, request: Request, response: ResponseMessage) -> None:
        """The result of the request in work; the next one is taken up."""
        if self._transport is None or request is not self._current:
            return
        self._current = self._message = None
        self._wire.answer(request, response)
        self._flush()
        self._work()

    def message(self, request: Request) -> RequestMessage | None:
        """The decoded request in work, None if it is not in work any more."""
        return self._message if request is self._current else None

    def close(self) -> None:
        """What was answered is still sent."""
        if self._transport is not None:
            self._transport.close()

    # How

    def _work(self) -> None:
        if self._working:
            return
        self._working = True
        try:
            while self._queue and self._current is None and not self._writing_paused and self._transport is not None:
                request = self._queue.popleft()
                self._current = request
                self._message = message = request.decode()
                self._server.handle(self, request, message)
        except ProtocolError as problem:
            self._refuse(problem)
        finally:
            self._working = False
        if self._reading_paused and len(self._queue) * 2 < MOST_QUEUED and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def _flush(self) -> None:
        buffers = self._wire.data_to_send()
        if buffers and self._transport is not None:
            self._transport.writelines(buffers)

    def _refuse(self, problem: ProtocolError) -> None:
        self._server.refused(self, problem)
        self._queue.clear()
        self._current = self._message = None
        if self._transport is not None:
            self._transport.abort()
