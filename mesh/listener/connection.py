"""One downstream connection: bytes to requests, results to bytes.

On a listener with SASL a client that has not authenticated may ask for versions and authenticate, in small requests and
within a few seconds; anything else closes its connection.

Requests of a connection are handled one after the other, as a Kafka broker does. A Fetch that is parked is answered
early when another request queues up behind it: some clients send heartbeats and commits on the same connection.

What a client can make the mesh keep is bounded: one request in work, what is read ahead of it (`MOST_QUEUED`,
`MOST_AHEAD`), one unfinished frame of 4 MiB at most, and one answer more than the transport's write buffer likes, for
nothing is read or taken up while the client does not read its answers. What is bounded over several connections, and
how many requests a second are taken up, is decided by `mesh.listener.limits`.

Time is bounded too: a connection is closed when no whole request came for `idle_timeout`, as Kafka does
(connections.max.idle.ms), when a frame that has begun is not whole after `frame_timeout`, and when the client has read
nothing of what waits for it for `write_timeout`.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol, cast

from mesh.apis.api import EmptyAnswer
from mesh.listener.admission import Admission
from mesh.listener.limits import Admitted, Closed
from mesh.listener.security import ListenerSecurity, peer_certificate
from mesh.pool.common.ids import ConnectionId
from mesh.security.rules import UNLIMITED
from mesh.security.session import Session
from mesh.wire.apis import ApiKey
from mesh.wire.connection import Request, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.frames import MAX_REQUEST_BYTES
from mesh.wire.messages import ResponseMessage

MOST_QUEUED: Final = 100
"""Requests that may wait behind the one in work; beyond it nothing is read from the connection, until half are left."""
MOST_AHEAD: Final = 256 * 1024
"""Bytes that may be read while a request is in work, whatever they are; only their last piece may go beyond it."""
MOST_BEFORE_AUTHENTICATION: Final = 64 * 1024
"""Bytes of a request of a client that has not authenticated yet; the largest it may send holds a token."""
AUTHENTICATION_TIMEOUT: Final = 10.0
"""Seconds a client has to authenticate in."""


class Server(Protocol):
    """What a connection is one of. versions: lowest and highest of each API."""

    @property
    def admission(self) -> Admission: ...

    @property
    def security(self) -> ListenerSecurity: ...

    @property
    def versions(self) -> Mapping[ApiKey, tuple[int, int]]: ...

    def now(self) -> float: ...

    def connected(self, connection: DownstreamConnection) -> None:
        """It was let in."""

    def authenticated(self, connection: DownstreamConnection) -> None:
        """It is known who its client is, for the first time or again."""

    def disconnected(self, connection: DownstreamConnection) -> None:
        """It is gone: what waits here must not be given anything any more."""

    def work_soon(self, connection: DownstreamConnection) -> None:
        """Let it take up its next request, once everything that was decided before is done."""

    def handle(self, connection: DownstreamConnection, request: Request) -> None:
        """Raises ProtocolError."""

    def answer_early(self, request: Request) -> None:
        """Another request waits behind this one."""


class DownstreamConnection(asyncio.Protocol):
    """in_work: the request that is being answered; those behind it wait. admitted: None before it was let in."""

    def __init__(self, server: Server, id: ConnectionId) -> None:
        self.id = id
        self.client_host = ""
        self.session = Session()
        self.access = UNLIMITED
        self.empty_answer = EmptyAnswer()
        self.in_work: Request | None = None
        self.admitted: Admitted | None = None
        self._server = server
        self._wire = ServerConnection(server.versions)
        self._queue: deque[Request] = deque()
        self._ahead = 0
        self._transport: asyncio.Transport | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._resting: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._door: asyncio.TimerHandle | None = None
        self._frame_begun = math.inf
        self._read_last = math.inf
        """When the client was last seen reading, while something waits for it."""
        self._watch: asyncio.TimerHandle | None = None

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        self.admitted = self._server.admission.enter(self)
        if self.admitted is None:
            accepted.abort()
            return
        self._transport = accepted
        self._bound_send_buffer(accepted)
        self._heard = self._server.now()
        self._watch_again()
        self._server.connected(self)
        self._identify(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        refused = self._wire.refused_versions
        try:
            received = self._wire.receive_data(data)
        except ProtocolError as problem:
            self._refuse(problem)
            return
        self._ahead += len(data)
        answered = self._wire.refused_versions - refused
        if received or answered:
            self._heard = self._server.now()
            self._queue += received
        self._note_frame(begun=bool(received or answered))
        if answered:
            self._flush()
            self.rest(max(self._server.admission.take(self) for _ in range(answered)))
        self._server.work_soon(self)
        self._pace()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._read_last = self._server.now()
        self._watch_again()
        self._pace()
        self._hold()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._read_last = math.inf
        self._server.admission.hold(self, 0)
        self._server.work_soon(self)
        self._pace()

    # Called by the server

    def work(self) -> None:
        """Take up the next request, if none is in work; answer a parked Fetch early, if one waits behind it."""
        if not self._queue or self._transport is None:
            return
        if self.in_work is not None:
            if self.in_work.api_key is ApiKey.FETCH:
                self._server.answer_early(self.in_work)
        elif not self._writing_paused and self._resting is None:
            self.in_work = request = self._queue.popleft()
            try:
                self._server.handle(self, request)
            except ProtocolError as problem:
                self._refuse(problem)
            if self._queue:
                self._server.work_soon(self)

    def answer(self, request: Request, response: ResponseMessage) -> None:
        """The answer to the request in work. Raises ValueError for one that has no room for what it is to carry."""
        self._wire.answer(request, response)
        self.in_work = None
        self._heard = self._server.now()
        self._flush()
        if self._writing_paused:
            self._hold()
        if self._queue:
            self._server.work_soon(self)
        self._pace()

    def established(self) -> None:
        """It is known who the client is, for the first time or again."""
        self._server.authenticated(self)
        self.judge()
        self._wire.limit_frames(MAX_REQUEST_BYTES)
        if self._door is not None:
            self._door.cancel()

    def judge(self) -> None:
        """What the client may do has to be looked at again."""
        self.access = self._server.security.access(self.session.principal, self.client_host)

    def rest(self, seconds: float) -> None:
        """Read nothing, and take up nothing, for so long: its client is above a quota."""
        if seconds <= 0 or self._transport is None:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(seconds, self._rested)
        self._pace()

    def close(self) -> None:
        """What was answered is still sent."""
        self._queue.clear()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once; what was not sent is lost."""
        transport = self._transport
        self._end()
        if transport is not None:
            transport.abort()

    # How

    def _flush(self) -> None:
        buffers = self._wire.data_to_send()
        # One that is being closed, for it did not authenticate say, may still have a Fetch that ends.
        if buffers and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(buffers)

    def _bound_send_buffer(self, transport: asyncio.Transport) -> None:
        size, own = self._server.admission.limits.send_buffer, transport.get_extra_info("socket")
        if size is not None and own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _hold(self) -> None:
        if self._transport is not None:
            self._server.admission.hold(self, self._transport.get_write_buffer_size())

    def _pace(self) -> None:
        """Read no further than what is bounded."""
        if self.in_work is None and not self._queue:
            self._ahead = 0
        if self._transport is None or self._transport.is_closing():
            return
        most = MOST_QUEUED // 2 if self._reading_paused else MOST_QUEUED
        ahead = self._wire.held > most + 1 or self._ahead > MOST_AHEAD
        pause = self._writing_paused or self._resting is not None or ahead
        if pause is not self._reading_paused:
            self._reading_paused = pause
            (self._transport.pause_reading if pause else self._transport.resume_reading)()
            if not pause:
                self._note_frame(begun=True)  # it could not come while nothing was read

    def _rested(self) -> None:
        self._resting = None
        self._server.work_soon(self)
        self._pace()

    def _identify(self, transport: asyncio.Transport) -> None:
        session = self._server.security.session(peer_certificate(transport))
        if session is None:
            self._refuse(ProtocolError("unauthenticated", "no mapping rule is about the client's certificate"))
            return
        self.session = session
        if session.is_established:
            self.established()
            return
        self._wire.limit_frames(MOST_BEFORE_AUTHENTICATION)
        self._door = asyncio.get_running_loop().call_later(AUTHENTICATION_TIMEOUT, self._close_unauthenticated)

    def _close_unauthenticated(self) -> None:
        detail = f"not authenticated within {AUTHENTICATION_TIMEOUT:g} s"
        self._refuse(ProtocolError("authentication_timeout", detail))

    def _refuse(self, problem: ProtocolError) -> None:
        self._server.admission.refused(self, problem)
        self.abort()

    def _end(self) -> None:
        """The server is told at once: what waits here must not be given anything any more."""
        if self._transport is None:
            return
        self._transport = None
        self._queue.clear()
        for timer in (self._watch, self._resting, self._door):
            if timer is not None:
                timer.cancel()
        self._server.disconnected(self)

    # Time limits

    def _note_frame(self, *, begun: bool) -> None:
        if not self._wire.has_unfinished_frame:
            self._frame_begun = math.inf
        elif begun or self._frame_begun == math.inf:
            self._frame_begun = self._server.now()
            self._watch_again()

    def _watch_again(self) -> None:
        """Look at the time limits when the nearest of them is due, or earlier."""
        limits = self._server.admission.limits
        frame = math.inf if self._reading_paused else self._frame_begun + limits.frame_timeout
        due = min(self._heard + limits.idle_timeout, frame, self._read_last + limits.write_timeout)
        if self._watch is not None:
            if self._watch.when() <= due:
                return
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        self._watch = None
        overdue = self._overdue(self._server.now())
        if overdue is None:
            self._watch_again()
        else:
            self._server.admission.closed(self, overdue)
            self.abort()

    def _overdue(self, now: float) -> Closed | None:
        limits = self._server.admission.limits
        if now >= self._read_last + limits.write_timeout and self._transport is not None and self.admitted is not None:
            if self._transport.get_write_buffer_size() >= self.admitted.unread:
                return "not_reading"
            self._read_last = now
            self._hold()
        if not self._reading_paused and now >= self._frame_begun + limits.frame_timeout:
            return "unfinished_frame"
        if self.in_work is not None:
            self._heard = now  # we are to speak, not its client
        return "idle" if now >= self._heard + limits.idle_timeout else None
