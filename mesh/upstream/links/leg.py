"""A connection to a broker for one client alone, over which bytes pass as they are.

A broker takes up one request of a connection at a time, ends share sessions and telemetry with the connection, and
counts quotas by it; so clients never share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, cast

from mesh.upstream.links.chunks import Chunks
from mesh.wire.messages import Buffer


class LegOwner(Protocol):
    """What has a leg. It is called by the event loop."""

    def leg_opened(self) -> None: ...

    def leg_received(self, chunk: memoryview) -> None:
        """The chunk may be changed, and is used again when nothing refers to it any more."""

    def leg_paused(self, *, is_paused: bool) -> None:
        """Whether the broker takes no more at the moment."""

    def leg_lost(self, reason: str) -> None: ...


class Leg(asyncio.BufferedProtocol):
    """A client's own connection to one broker."""

    def __init__(self, owner: LegOwner, chunks: Chunks) -> None:
        self._owner: LegOwner | None = owner
        self._chunks: Final = chunks
        self._transport: asyncio.Transport | None = None
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, buffers: Sequence[Buffer]) -> None:
        if self._transport is not None:
            self._transport.writelines(buffers)

    def pause(self, *, is_paused: bool) -> None:
        """Read nothing more, or again."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    def close(self, linger: float) -> None:
        """Its owner hears nothing of it any more. linger: seconds in which the broker takes what was sent."""
        self._owner = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if linger <= 0:
            transport.abort()
            return
        self._lingering = asyncio.get_running_loop().call_later(linger, transport.abort)
        if transport.can_write_eof():
            # The broker closes when it has taken all. Whoever closes with something unread resets the connection, and
            # what was sent is lost: so its answers are read, and dropped.
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        if self._owner is None:
            self._transport.abort()
        else:
            self._owner.leg_opened()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._chunks.take()

    def buffer_updated(self, nbytes: int) -> None:
        chunk = self._chunks.read(nbytes)
        if self._owner is not None:
            self._owner.leg_received(chunk)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._owner is not None:
            self._owner.leg_paused(is_paused=True)

    def resume_writing(self) -> None:
        if self._owner is not None:
            self._owner.leg_paused(is_paused=False)

    def connection_lost(self, exc: Exception | None) -> None:
        owner, self._owner, self._transport = self._owner, None, None
        if self._lingering is not None:
            self._lingering.cancel()
        if owner is not None:
            owner.leg_lost(f"the connection was closed: {exc}" if exc else "the broker closed the connection")
