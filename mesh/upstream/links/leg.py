"""A leg: a connection to a broker for one client alone, which passes bytes on as they are.

Clients never share a leg. A broker works on one request of a connection at a time, ties share sessions and telemetry to
the connection, and counts quotas by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol, cast

from mesh.tasks import OwnedTask, TaskName, no_buffer, report
from mesh.upstream.links.chunks import Chunks
from mesh.wire.messages import Buffer


class LegOwner(Protocol):
    """The owner of a leg. The event loop calls it."""

    def leg_opened(self) -> None: ...

    def leg_received(self, chunk: memoryview) -> None:
        """Takes bytes from the broker. The chunk may be changed; it is reused when nothing refers to it any more."""

    def leg_full(self, *, is_full: bool) -> None:
        """Notes whether the broker has stopped accepting data."""

    def leg_lost(self, reason: str) -> None: ...

    def leg_failed(self, problem: BaseException) -> None:
        """Takes an unforeseen exception in one of the other methods. It ends the client's connection."""


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

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport; None before it is open, and when it is lost."""
        return self._transport

    def send(self, buffers: Sequence[Buffer]) -> None:
        if self._transport is not None:
            self._transport.writelines(buffers)

    def pause(self, *, is_paused: bool) -> None:
        """Stops reading, or reads again."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    def close(self, linger: float) -> None:
        """Closes the leg: its owner gets no more events. linger: seconds in which the broker may read the sent
        bytes."""
        self._owner = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if linger <= 0:
            transport.abort()
            return
        self._lingering = asyncio.get_running_loop().call_later(linger, transport.abort)
        if transport.can_write_eof():
            # The broker closes when it has read everything. Closing with unread data would reset the connection and
            # lose what was sent. So read the broker's answers, and drop them.
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from asyncio.Transport
        if self._owner is None:
            self._transport.abort()
            return
        owner = self._owner
        try:
            owner.leg_opened()
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self._failed(owner, problem)

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            return self._chunks.take()
        except BaseException as problem:
            raise no_buffer(partial(self._failed, self._owner), problem) from problem

    def buffer_updated(self, nbytes: int) -> None:
        owner = self._owner
        try:
            chunk = self._chunks.read(nbytes)
            if owner is not None:
                owner.leg_received(chunk)
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self._failed(owner, problem)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._full(is_full=True)

    def resume_writing(self) -> None:
        self._full(is_full=False)

    def connection_lost(self, exc: Exception | None) -> None:
        owner, self._owner, self._transport = self._owner, None, None
        try:
            if self._lingering is not None:
                self._lingering.cancel()
            if owner is not None:
                owner.leg_lost(f"the connection was closed: {exc}" if exc else "the broker closed the connection")
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self._failed(owner, problem)

    def _full(self, *, is_full: bool) -> None:
        owner = self._owner
        try:
            if owner is not None:
                owner.leg_full(is_full=is_full)
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self._failed(owner, problem)

    def _failed(self, owner: LegOwner | None, problem: BaseException) -> None:
        self._owner = None
        if self._transport is not None:
            self._transport.abort()
        if owner is None:
            report(OwnedTask(TaskName.LEG), problem)  # its client is gone
        else:
            owner.leg_failed(problem)
