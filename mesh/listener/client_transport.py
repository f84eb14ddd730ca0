"""The transport of one client, under the rules of its listener: admission, identity, time limits, pacing.

Whatever a target makes of the bytes of a client, its connection owns one of these. On a listener with SASL a client
that has not authenticated may ask for versions and authenticate, in small requests and within a few seconds; anything
else closes its connection.

What is bounded over several connections, and how many requests a second are taken up, is decided by
`mesh.listener.limits`. Time is bounded too: a connection is closed when no whole request came for `idle_timeout`, as
Kafka does (connections.max.idle.ms), when a frame that has begun is not whole after `frame_timeout`, and when the
client has read nothing of what waits for it for `write_timeout`.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Sequence
from struct import pack
from typing import Final, Protocol, cast

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.limits import Admitted, Closed
from mesh.listener.listener import Listener
from mesh.listener.security import peer_certificate
from mesh.security.rules import UNLIMITED
from mesh.security.session import Session
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer

_WITH_RESET: Final = pack("ii", 1, 0)
"""Of SO_LINGER: closed at once, and what was not sent is lost."""
AUTHENTICATION_TIMEOUT: Final = 10.0
"""Seconds a client has to authenticate in."""


class TransportOwner(Protocol):
    """What a target makes of the bytes of one client; it owns the transport."""

    def opened(self) -> None:
        """The client was let in. It may have to authenticate first."""

    def established(self) -> None:
        """It is known who the client is, for the first time or again."""

    def resumed(self) -> None:
        """The next request may be taken up: the client reads again, or its rest is over."""

    def closed(self) -> None:
        """The client is gone: what waits here must not be given anything any more."""

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for the mesh, rather than the mesh for the client."""

    @property
    def has_unfinished_frame(self) -> bool: ...


class _Nobody:
    """The owner of a transport whose client is gone."""

    is_busy = False
    has_unfinished_frame = False

    def opened(self) -> None: ...

    def established(self) -> None: ...

    def resumed(self) -> None: ...

    def closed(self) -> None: ...


_NOBODY: Final = _Nobody()


class ClientTransport:
    """The transport of one client. listener_name: to whose address it came. admitted: None before it was let in."""

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
        self.is_writing_paused = False
        self._has_read_ahead = False
        self._listener = listener
        self._connection: TransportOwner = connection
        self._transport: asyncio.Transport | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._authentication: asyncio.TimerHandle | None = None
        self._frame_begun = math.inf
        self._read_last = math.inf
        """When the client was last seen reading, while something waits for it."""
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        return self._connection.is_busy

    @property
    def is_ending(self) -> bool:
        """Whether it is being closed, or is gone: no request is taken up any more."""
        return self._is_stopped or not self.is_open

    @property
    def may_be_served(self) -> bool:
        """Whether its next request may be taken up: it reads its answers, and is within its quota."""
        return self.is_open and not (self._is_stopped or self.is_writing_paused) and self._resting is None

    # Called by the connection, for the event loop

    def open(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
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
        """Before it is opened, on the transport of another one: that one's client was let in already, and may have
        authenticated. The other one ends, without a word to its client."""
        self._is_taken_over = True
        self.admitted, before.admitted = before.admitted, None
        self.session = before.session
        before.end()

    def pause_writing(self) -> None:
        self.is_writing_paused = True
        self._read_last = self._listener.now()
        self._watch_again()
        self._pace()
        self._hold()

    def resume_writing(self) -> None:
        self.is_writing_paused = False
        self._read_last = math.inf
        self._listener.admission.hold(self, 0)
        self._connection.resumed()
        self._pace()

    def end(self) -> None:
        """The connection is told at once: what waits here must not be given anything any more."""
        if self._transport is None:
            return
        self._transport = None
        self.is_open = False
        for timer in (self._watch, self._resting, self._authentication):
            if timer is not None:
                timer.cancel()
        self._listener.disconnected(self)
        connection, self._connection = self._connection, _NOBODY  # no cycle may stay: it keeps frames
        connection.closed()

    # Called by the connection

    def received(self, *, whole: bool, unfinished: bool) -> None:
        """Bytes came. whole: whether they completed a request. unfinished: whether they began another one."""
        if whole:
            self._heard = self._listener.now()
        if not unfinished:
            self._frame_begun = math.inf
        elif self._frame_begun == math.inf:
            self._begin_frame()
        elif whole:
            self._frame_begun = self._heard  # which is later, so that the limits are looked at early enough

    def write(self, buffers: Sequence[Buffer]) -> None:
        """A response, or several, or parts of them."""
        self._heard = self._listener.now()
        # One that is being closed, for it did not authenticate say, may still have a Fetch that ends.
        if buffers and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(buffers)
            if self.is_writing_paused:
                self._hold()

    def pace(self, *, has_read_ahead: bool) -> None:
        """Read no further than what is bounded. has_read_ahead: so much waits to be taken up that no more is read."""
        self._has_read_ahead = has_read_ahead
        if has_read_ahead is not self.is_reading_paused:
            self._pace()

    def rest(self, seconds: float) -> None:
        """Read nothing, and take up nothing, for so long: its client is above a quota."""
        if seconds <= 0 or self._transport is None:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(seconds, self._rested)
        self._pace()

    def refuse(self, problem: ProtocolError) -> None:
        """Close it for what its client sent."""
        self._listener.admission.refused(self, problem)
        self.abort()

    # Called by the listener

    def established(self) -> None:
        """It is known who the client is, for the first time or again."""
        self._connection.established()
        self.refresh_access()
        if self._authentication is not None:
            self._authentication.cancel()

    def refresh_access(self) -> None:
        """What the client may do has to be looked at again."""
        self.access = self._listener.security.access(self.session.principal, self.client_host)

    def stop_serving(self) -> None:
        """Take up no request any more: it is about to be closed."""
        self._is_stopped = True

    def close(self) -> None:
        """What was answered is still sent."""
        self._is_stopped = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once; what was not sent is lost."""
        transport = self._transport
        self.end()
        if transport is not None:
            transport.abort()

    def reset(self) -> None:
        """`abort`, as a host does where nobody listens: the client is not told of an orderly end."""
        own = self._transport.get_extra_info("socket") if self._transport is not None else None
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _WITH_RESET)
        self.abort()

    # How

    def _bound_send_buffer(self, transport: asyncio.Transport) -> None:
        size, own = self._listener.admission.limits.send_buffer, transport.get_extra_info("socket")
        if size is not None and own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _hold(self) -> None:
        if self._transport is not None:
            self._listener.admission.hold(self, self._transport.get_write_buffer_size())

    def _pace(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        pause = self.is_writing_paused or self._resting is not None or self._has_read_ahead
        if pause is not self.is_reading_paused:
            self.is_reading_paused = pause
            (self._transport.pause_reading if pause else self._transport.resume_reading)()
            if not pause and self._connection.has_unfinished_frame:
                self._begin_frame()  # it could not come while nothing was read

    def _rested(self) -> None:
        self._resting = None
        self._connection.resumed()
        self._pace()

    def _identify(self, transport: asyncio.Transport) -> None:
        session: Session | None = self.session
        if not self._is_taken_over:
            session = self._listener.security.session(peer_certificate(transport), self.listener_name)
        if session is None:
            self.refuse(ProtocolError("unauthenticated", "no mapping rule is about the client's certificate"))
            return
        self.session = session
        if session.is_established:
            self.established()
            return
        self._authentication = asyncio.get_running_loop().call_later(
            AUTHENTICATION_TIMEOUT, self._close_unauthenticated
        )

    def _close_unauthenticated(self) -> None:
        detail = f"not authenticated within {AUTHENTICATION_TIMEOUT:g} s"
        self.refuse(ProtocolError("authentication_timeout", detail))

    # Time limits

    def _begin_frame(self) -> None:
        self._frame_begun = self._listener.now()
        self._watch_again()

    def _watch_again(self) -> None:
        """Look at the time limits when the nearest of them is due, or earlier."""
        limits = self._listener.admission.limits
        frame = math.inf if self.is_reading_paused else self._frame_begun + limits.frame_timeout
        due = min(self._heard + limits.idle_timeout, frame, self._read_last + limits.write_timeout)
        if self._watch is not None:
            if self._watch.when() <= due:
                return
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
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
            self._hold()
        if not self.is_reading_paused and now >= self._frame_begun + limits.frame_timeout:
            return "unfinished_frame"
        if self._connection.is_busy:
            self._heard = now  # we are to speak, not its client
        return "idle" if now >= self._heard + limits.idle_timeout else None
