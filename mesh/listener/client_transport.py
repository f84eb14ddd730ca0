"""The transport of one client, under the rules of its listener: admission, identity, time limits, pacing.

Every connection of a client owns one, whatever its target. On a listener with SASL, a client that has not authenticated
may only send ApiVersions and authenticate, in small requests and within a few seconds. Any other request closes the
connection.

`mesh.listener.limits` decides about limits over several connections, and about the rate of requests. A connection is
closed if no whole request comes for `idle_timeout`, as on a broker (connections.max.idle.ms). It is also closed if a
frame is not complete `frame_timeout` after its beginning, and if the client reads none of the waiting bytes for
`write_timeout`.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Sequence
from struct import pack
from typing import Final, Protocol, cast

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.limits import Admitted, Closed
from mesh.listener.listener import Listener
from mesh.listener.security import peer_certificate
from mesh.security.rules import UNLIMITED
from mesh.security.session import Session
from mesh.tasks import OwnedTask, TaskName, guarded, report
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer

_WITH_RESET: Final = pack("ii", 1, 0)
"""The SO_LINGER value for a close with a reset, which loses unsent data."""
AUTHENTICATION_TIMEOUT: Final = 10.0
"""Seconds that a client has to authenticate."""


class TransportOwner(Protocol):
    """The owner of a transport: the part of a target that reads the bytes of one client."""

    def opened(self) -> None:
        """Called when the client was admitted. It may have to authenticate first."""

    def established(self) -> None:
        """Called when the client's identity is known, for the first time or again."""

    def resumed(self) -> None:
        """Called when the mesh may handle the next request: the client reads again, or its pause is over."""

    def closed(self) -> None:
        """Called when the client is gone: no result may be given to waiting requests any more."""

    @property
    def is_busy(self) -> bool:
        """True if the client waits for the mesh, rather than the mesh for the client."""

    @property
    def has_unfinished_frame(self) -> bool: ...


class _NoOwner:
    """The owner of a transport whose client is gone."""

    is_busy = False
    has_unfinished_frame = False

    def opened(self) -> None: ...

    def established(self) -> None: ...

    def resumed(self) -> None: ...

    def closed(self) -> None: ...


_NO_OWNER: Final = _NoOwner()


class ClientTransport:
    """The transport of one client. listener_name: the listener that the client connected to. admitted: None before the
    client was admitted."""

    def __init__(self, listener: Listener, connection: TransportOwner, listener_name: ListenerName = FIRST) -> None:
        self.listener_name: Final = listener_name
        self.id = listener.next_id()
        self.client_host = ""
        self.session = Session()
        self._is_taken_over = False
        self.access = UNLIMITED
        self.admitted: Admitted | None = None
        self.is_open = False
        self._is_stopped = False
        self.is_reading_paused = False
        self._is_read_elsewhere = False
        self._is_reading = True
        self.is_writing_paused = False
        self._has_read_ahead = False
        self._listener = listener
        self._task: Final = OwnedTask(TaskName.CONNECTION, listener.name)
        self._connection: TransportOwner = connection
        self._transport: asyncio.Transport | None = None
        self._throttled: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._authentication: asyncio.TimerHandle | None = None
        self._frame_begun = math.inf
        self._read_last = math.inf
        """The time at which the client was last seen to read, while bytes wait for it."""
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        return self._connection.is_busy

    @property
    def log_fields(self) -> dict[str, str | int]:
        """The keys that name the connection in the log."""
        return {"virtual_cluster": self._listener.name, "connection": self.id, "client_host": self.client_host}

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport; None before it is open, and when the client is gone."""
        return self._transport

    @property
    def is_ending(self) -> bool:
        """True if the connection is being closed, or is gone: no further request is handled."""
        return self._is_stopped or not self.is_open

    @property
    def may_be_served(self) -> bool:
        """True if the mesh may handle the client's next request: the client reads its responses, and is within its
        quota."""
        return self.is_open and not (self._is_stopped or self.is_writing_paused) and self._throttled is None

    def failed(self, problem: BaseException) -> None:
        """Reports an unforeseen exception in a function that the event loop has called, and closes the connection."""
        report(self._task, problem)
        self.abort()

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """Returns a function for the event loop to call later. A failure is reported, and closes the connection."""
        return guarded(self._task, call, self.abort)

    # Called by the connection, for the event loop

    def open(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from it
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        if not self._is_taken_over:
            self.admitted = self._listener.admission.enter(self)
        if self.admitted is None:
            accepted.abort()
            return
        self._transport = accepted
        self.is_open = True
        self._bound_send_buffer(accepted)
        self._heard = self._listener.now()
        self._watch_again()
        self._listener.connected(self)
        self._connection.opened()
        self._identify(accepted)

    def take_over(self, before: ClientTransport) -> None:
        """Takes over the socket of another ClientTransport, before this one is opened. The client was admitted already,
        and may have authenticated. The other ClientTransport ends, and the client does not notice."""
        self._is_taken_over = True
        self.admitted, before.admitted = before.admitted, None
        self.session = before.session
        before.end()

    def pause_writing(self) -> None:
        self.is_writing_paused = True
        self._read_last = self._listener.now()
        self._watch_again()
        self._pace()
        self._count_unread()

    def resume_writing(self) -> None:
        self.is_writing_paused = False
        self._read_last = math.inf
        self._listener.admission.count_unread(self, 0)
        self._connection.resumed()
        self._pace()

    def end(self) -> None:
        """Tells the connection at once that the client is gone: no result may be given to waiting requests any more."""
        if self._transport is None:
            return
        self._transport = None
        self.is_open = False
        connection, self._connection = self._connection, _NO_OWNER  # break the cycle: it keeps frames alive
        try:
            self._listener.disconnected(self)  # first: it gives back what is counted
            for timer in (self._watch, self._throttled, self._authentication):
                if timer is not None:
                    timer.cancel()
            connection.closed()
        except BaseException as problem:  # noqa: BLE001 - the caller may be another connection
            report(self._task, problem)

    # Called by the connection

    def received(self, *, whole: bool, unfinished: bool) -> None:
        """Notes that bytes came. whole: True if they completed a request. unfinished: True if they began another
        one."""
        if whole:
            self._heard = self._listener.now()
        if not unfinished:
            self._frame_begun = math.inf
        elif self._frame_begun == math.inf:
            self._begin_frame()
        elif whole:
            self._frame_begun = self._heard  # only later than before, so the timer is early enough

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Writes a response, several responses, or parts of them."""
        self._heard = self._listener.now()
        # A connection that is closing, for example after a failed authentication, may still have a waiting Fetch.
        if buffers and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(buffers)
            if self.is_writing_paused:
                self._count_unread()

    def pace(self, *, has_read_ahead: bool) -> None:
        """Stops reading at the limits. has_read_ahead: True if enough data waits already."""
        self._has_read_ahead = has_read_ahead
        if has_read_ahead is not self.is_reading_paused:
            self._pace()

    def read_elsewhere(self, *, is_begun: bool) -> None:
        """Notes that other code reads the socket from now on (is_begun), or has stopped reading it. The time limits
        stay; see `received`."""
        self._is_read_elsewhere = is_begun
        self._pace()

    def throttle(self, seconds: float) -> None:
        """Reads nothing, and handles no request, for so many seconds: the client is above a quota."""
        if seconds <= 0 or self._transport is None:
            return
        if self._throttled is not None:
            self._throttled.cancel()
        self._throttled = asyncio.get_running_loop().call_later(seconds, self.guarded(self._throttle_ended))
        self._pace()

    def refuse(self, problem: ProtocolError) -> None:
        """Closes the connection because of what the client sent."""
        self._listener.admission.refused(self, problem)
        self.abort()

    # Called by the listener

    def established(self) -> None:
        """Notes that the client's identity is known, for the first time or again."""
        self._connection.established()
        self.refresh_access()
        if self._authentication is not None:
            self._authentication.cancel()

    def refresh_access(self) -> None:
        """Has the client's permissions checked again."""
        self.access = self._listener.security.access(self.session.principal, self.client_host)

    def stop_serving(self) -> None:
        """Handles no further requests: the connection is about to be closed."""
        self._is_stopped = True

    def close(self) -> None:
        """Closes the connection when all responses are sent."""
        self._is_stopped = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once. Unsent data is lost."""
        transport = self._transport
        self.end()
        if transport is not None:
            transport.abort()

    def reset(self) -> None:
        """Closes the connection like `abort`, but the client gets a reset, as from a host without a listener."""
        own = self._transport.get_extra_info("socket") if self._transport is not None else None
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _WITH_RESET)
        self.abort()

    # Internals

    def _bound_send_buffer(self, transport: asyncio.Transport) -> None:
        size, own = self._listener.admission.limits.send_buffer, transport.get_extra_info("socket")
        if size is not None and own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _count_unread(self) -> None:
        if self._transport is not None:
            self._listener.admission.count_unread(self, self._transport.get_write_buffer_size())

    def _pace(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        pause = self.is_writing_paused or self._throttled is not None or self._has_read_ahead
        if (is_reading := not (pause or self._is_read_elsewhere)) is not self._is_reading:
            self._is_reading = is_reading
            (self._transport.resume_reading if is_reading else self._transport.pause_reading)()
        if pause is not self.is_reading_paused:
            self.is_reading_paused = pause
            if not pause and self._connection.has_unfinished_frame:
                self._begin_frame()  # the time without reading does not count

    def _throttle_ended(self) -> None:
        self._throttled = None
        self._connection.resumed()
        self._pace()

    def _identify(self, transport: asyncio.Transport) -> None:
        session: Session | None = self.session
        if not self._is_taken_over:
            try:
                session = self._listener.security.session(peer_certificate(transport), self.listener_name)
            except ProtocolError as problem:
                self.refuse(problem)
                return
        if session is None:
            self.refuse(ProtocolError("unauthenticated", "no mapping rule is about the client's certificate"))
            return
        self.session = session
        if session.is_established:
            self.established()
            return
        self._authentication = asyncio.get_running_loop().call_later(
            AUTHENTICATION_TIMEOUT, self.guarded(self._close_unauthenticated)
        )

    def _close_unauthenticated(self) -> None:
        detail = f"not authenticated within {AUTHENTICATION_TIMEOUT:g} s"
        self.refuse(ProtocolError("authentication_timeout", detail))

    # Time limits

    def _begin_frame(self) -> None:
        self._frame_begun = self._listener.now()
        self._watch_again()

    def _watch_again(self) -> None:
        """Checks the time limits again when the first of them is due, or earlier."""
        limits = self._listener.admission.limits
        frame = math.inf if self.is_reading_paused else self._frame_begun + limits.frame_timeout
        due = min(self._heard + limits.idle_timeout, frame, self._read_last + limits.write_timeout)
        if self._watch is not None:
            if self._watch.when() <= due:
                return
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(due, self.guarded(self._check_timeouts))

    def _check_timeouts(self) -> None:
        self._watch = None
        overdue = self._overdue(self._listener.now())
        if overdue is None:
            self._watch_again()
        else:
            self._listener.admission.closed(self, overdue)
            self.abort()

    def _overdue(self, now: float) -> Closed | None:
        limits = self._listener.admission.limits
        if now >= self._read_last + limits.write_timeout and self._transport is not None and self.admitted is not None:
            if self._transport.get_write_buffer_size() >= self.admitted.unread:
                return "not_reading"
            self._read_last = now
            self._count_unread()
        if not self.is_reading_paused and now >= self._frame_begun + limits.frame_timeout:
            return "unfinished_frame"
        if self._connection.is_busy:
            self._heard = now  # the client waits for the mesh, so it is not idle
        return "idle" if now >= self._heard + limits.idle_timeout else None
