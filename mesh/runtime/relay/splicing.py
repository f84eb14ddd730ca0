"""Moves the rest of a large request from a client's socket to its broker's inside the kernel, by splice(2).

Most of the CPU that a relay needs for producing goes into copying bytes in and out: 0.66 s a GB, 0.25 s with splice. A
request passes unread once its beginning is known. So its rest moves through a pipe, and never comes into the memory of
the mesh. While the broker accepts no data, nothing is read from the client, as anywhere in a relay.

This needs Linux and two plain TCP connections. All other data is copied.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from mesh.listener.client_transport import ClientTransport
from mesh.wire.messages import Buffer

WORTH: Final = 128 << 10
"""The shortest rest in bytes that is spliced. To copy it costs as much as to set up a splice."""
_CAPACITY: Final = 1 << 20
"""The size of a pipe in bytes; the most that may move at once."""
_HEAD: Final = 16 << 10
"""Bytes to read of a request that is probably going to be spliced."""
_DESCRIPTORS: Final = 1
"""File descriptors that a splice opens for itself."""
_MOST_BUFFERS: Final = 64
"""The most buffers in one system call."""
_TURNS: Final = 4
"""The number of times that one connection may move bytes before others have their turn."""
_MOST_PIPES: Final = 64
_HAS_SPLICE: Final = hasattr(os, "splice")
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
"""Errors of a kernel, or of a sandbox, that does not splice sockets."""


class Pipe:
    """A pipe of the kernel. It holds bytes on their way between two sockets."""

    __slots__ = ("held", "reader", "writer")

    def __init__(self) -> None:
        self.held = 0
        """The number of bytes in the pipe."""
        self.reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # at the user's limit for pipes it stays smaller, and moves take more turns
            fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, _CAPACITY)

    def fill(self, source: int, most: int) -> int:
        """Moves up to `most` bytes from a socket into the pipe. Returns their number; 0 at the end of the stream.
        Raises BlockingIOError and OSError."""
        moved = os.splice(source, self.writer, min(most, _CAPACITY), flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
        self.held += moved
        return moved

    def drain(self, target: int) -> None:
        """Moves bytes from the pipe to a socket, as many as it accepts. Raises BlockingIOError and OSError."""
        self.held -= os.splice(self.reader, target, self.held, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)

    def __del__(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


class Pipes:
    """The pipes that all connections share. A connection uses one only during a call, or while its broker accepts no
    data."""

    def __init__(self, most: int = _MOST_PIPES) -> None:
        self._most = most
        self._free: list[Pipe] = []
        self._count = 0

    def take(self) -> Pipe | None:
        """Returns an empty pipe; None if all are in use."""
        if self._free:
            return self._free.pop()
        if self._count >= self._most:
            return None
        try:
            pipe = Pipe()
        except OSError:
            return None  # no file descriptor is left
        self._count += 1
        return pipe

    def disable(self) -> None:
        """Gives out no more pipes."""
        self._most = 0
        self._free.clear()

    def give_back(self, pipe: Pipe) -> None:
        """Makes a pipe available to others, unless it still holds bytes."""
        if pipe.held or not self._most:
            self._count -= 1
        else:
            self._free.append(pipe)


class SplicingConnection(Protocol):
    """The connection whose requests are spliced."""

    client: ClientTransport

    def plain_ends(self) -> tuple[int, int] | None:
        """Returns the file descriptors of client and broker; None if bytes cannot be spliced."""

    def is_leg_free(self) -> bool:
        """True if nothing waits to be sent to the broker."""

    def spliced(self, count: int) -> None:
        """Called when `count` bytes of the request have passed."""

    def splice_ended(self) -> None:
        """Called before the client's transport reads again."""

    def leg_lost(self, reason: str) -> None: ...


class SpliceOwner(Protocol):
    """The owner of a splice. The splice reports its progress to it."""

    def spliced(self, count: int) -> None:
        """Called when `count` bytes have left the source."""

    def splice_waits(self) -> None:
        """Called when the target accepts no more for now: until the end, the source's transport must read nothing."""

    def splice_ended(self) -> None:
        """Called when nothing moves any more, and no byte is between source and target."""

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """Returns a function for the event loop to call later; its failure ends the connection."""

    def source_lost(self, problem: OSError) -> None: ...

    def target_lost(self, problem: OSError) -> None: ...


class Splice:
    """Moves bytes between the sockets of two transports. It moves bytes that have arrived, and does not wait for
    others: the source's transport reads the next ones.

    It does wait for a target that accepts no more. An event loop watches a file descriptor only once, and the target's
    transport uses that for its own. So a splice duplicates the file descriptor. The target stays open until its
    transport and the splice have closed it.
    """

    def __init__(self, pipes: Pipes, source: int, target: int, owner: SpliceOwner) -> None:
        """source, target: file descriptors. Raises OSError."""
        self._pipes = pipes
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._target = os.dup(target)
        self._pipe: Pipe | None = None
        self._left = 0
        """The number of bytes that are still to leave the source."""
        self.is_active = False

    def write(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Writes the bytes that come before those to be moved. Returns the bytes that the target does not accept."""
        try:
            written = os.writev(self._target, buffers[:_MOST_BUFFERS])
        except OSError:
            written = 0  # the target's transport reports the same error
        unsent: list[Buffer] = []
        for each in buffers:
            if written >= len(each):
                written -= len(each)
            else:
                unsent.append(memoryview(each)[written:])
                written = 0
        return unsent

    def start(self, count: int) -> None:
        """Moves up to `count` bytes that have arrived; fewer if all pipes are in use. Called while the source's
        transport is open. The splice ends before this returns, unless the target accepts no more."""
        self._left, self.is_active = count, True
        for _ in range(_TURNS):
            before = self._left
            if not self._move():
                self._owner.splice_waits()
                self._loop.add_writer(self._target, self._owner.guarded(self._writable))
                return
            if not self.is_active:
                return
            if self._left == before:
                break
        self._end()

    def close(self) -> None:
        """Ends the splice at once, and calls its owner no more. Bytes that have left the source but have not reached
        the target are lost."""
        if self._target < 0:
            return
        self._loop.remove_writer(self._target)
        self.is_active = False
        self._release()
        os.close(self._target)
        self._target = -1

    def _move(self) -> bool:
        """Moves the bytes that have arrived. Returns False if the target accepts no more until it is writable."""
        pipe = self._pipe = self._pipes.take()
        if pipe is None:
            return True
        try:
            moved = pipe.fill(self._source, self._left)
        except BlockingIOError:
            moved = 0
        except OSError as problem:
            self._release()
            self.is_active = False
            if problem.errno in _UNSUPPORTED:
                self._pipes.disable()
                self._owner.splice_ended()
            else:
                self._owner.source_lost(problem)
            return True
        if not moved:
            self._release()  # no bytes have come, or the stream has ended, which the transport notices, too
            return True
        self._left -= moved
        self._owner.spliced(moved)
        return not self.is_active or self._drain()

    def _writable(self) -> None:
        if self._drain() and self._target >= 0:
            self._loop.remove_writer(self._target)
            if self.is_active:
                self._end()

    def _drain(self) -> bool:
        """Empties the pipe into the target. Returns False if the target accepts no more for now."""
        pipe = self._pipe
        assert pipe is not None
        try:
            while pipe.held:
                pipe.drain(self._target)
        except BlockingIOError:
            return False
        except OSError as problem:
            self.is_active = False
            self._owner.target_lost(problem)
            return True
        self._release()
        if not self._left:
            self._end()
        return True

    def _end(self) -> None:
        self.is_active = False
        self._owner.splice_ended()

    def _release(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._pipes.give_back(pipe)


class RequestSplicing:
    """Splices the large requests of one client."""

    def __init__(self, pipes: Pipes, count_broker_connections: Callable[[int], None]) -> None:
        """count_broker_connections: called with the number of descriptors that are opened or, as a negative number,
        closed."""
        self._count_broker_connections: Final = count_broker_connections
        self._connection: SplicingConnection | None = None
        """The connection whose bytes move; None otherwise, since it has a reference to this object."""
        self._pipes = pipes
        self._splice: Splice | None = None
        self._is_impossible = False
        self._is_waiting = False
        """True while the broker must accept bytes before more are read."""
        self._is_begun_by_splice = False
        """True if the last request was spliced. Most likely the next one is as large, so only its head is read."""

    def first(self, chunk: memoryview) -> memoryview:
        """The part of a chunk into which to read."""
        return chunk[:_HEAD] if self._is_begun_by_splice else chunk

    def begin(self, connection: SplicingConnection, buffers: list[Buffer], remaining: int) -> list[Buffer]:
        """Called when bytes of a request were read. Returns the buffers that the leg must send; none if the splice has
        sent them. buffers: the bytes to send. remaining: the number of bytes that are still to come, and that pass
        unread."""
        self._is_begun_by_splice = False
        if remaining < WORTH or self._is_impossible or not connection.is_leg_free():
            return buffers
        splice = self._splice or self._made(connection)
        if splice is None or (unsent := splice.write(buffers)):
            return buffers if splice is None else unsent
        self._connection = connection
        splice.start(remaining)
        return []

    def close(self) -> None:
        """Ends a splice that is under way, and closes its file descriptors."""
        splice, self._splice = self._splice, None
        self._connection = None
        self._is_impossible, self._is_waiting = True, False
        if splice is not None:
            self._count_broker_connections(-_DESCRIPTORS)
            splice.close()

    def _made(self, connection: SplicingConnection) -> Splice | None:
        ends = connection.plain_ends()
        if ends is None:
            self._is_impossible = True
            return None
        try:
            self._splice = Splice(self._pipes, *ends, owner=self)
            self._count_broker_connections(_DESCRIPTORS)
        except OSError:
            self._is_impossible = True  # no file descriptor is left
        return self._splice

    # Called by its splice

    def spliced(self, count: int) -> None:
        assert self._connection is not None
        self._is_begun_by_splice = True
        self._connection.spliced(count)

    def splice_waits(self) -> None:
        assert self._connection is not None
        self._is_waiting = True
        self._connection.client.read_elsewhere(is_begun=True)

    def splice_ended(self) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        if self._is_waiting:  # otherwise the connection continues after `begin`
            self._is_waiting = False
            connection.splice_ended()
            connection.client.read_elsewhere(is_begun=False)

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        assert self._connection is not None
        return self._connection.client.guarded(call)

    def source_lost(self, problem: OSError) -> None:
        assert self._connection is not None
        self._connection.client.abort()

    def target_lost(self, problem: OSError) -> None:
        assert self._connection is not None
        self._connection.leg_lost(f"the connection was closed: {problem}")


def plain_socket(transport: asyncio.BaseTransport | None) -> int | None:
    """The file descriptor of a transport's socket; None if its bytes cannot be spliced."""
    if not _HAS_SPLICE or transport is None or transport.get_extra_info("ssl_object") is not None:
        return None
    own = transport.get_extra_info("socket")
    descriptor = -1 if own is None else own.fileno()
    return descriptor if descriptor >= 0 else None
