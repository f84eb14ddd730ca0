"""The connections of an admin address, within bounds of number and time.

Uvicorn speaks HTTP. It has no limit for the time that a request takes to arrive, and none for the number of
connections. Without limits, clients that send nothing take the open files of the process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any, Final

import anyio
import anyio.abc
import uvicorn
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mesh.admin.access import PROBES, AdminAccess
from mesh.listener.tls import HANDSHAKE_TIMEOUT, OUT_OF_FILES_DELAY
from mesh.tasks import OwnedTask, TaskName, begin, guarded, report
from mesh.telemetry.logs import get_logger

MOST_CONNECTIONS: Final = 100
"""The most connections of an admin address. A further one takes the place of the one that has waited longest for a
request; if all have requests, it is closed."""
MOST_HANDSHAKES: Final = 50
"""The most TLS handshakes at the same time. A further one takes the place of the oldest."""
MOST_REQUESTS: Final = 64
"""The most requests that are answered at the same time. Above it only health is answered, and the rest gets 503."""
REQUEST_TIMEOUT: Final = 15.0
"""Seconds within which a request has to arrive whole, after the connection was made or the last one was answered."""
WRITE_TIMEOUT: Final = 60.0
"""Seconds that a client may take to read what it has asked for."""

_WAITS: Final = count()
_CONNECTION: Final = OwnedTask(TaskName.ADMIN_CONNECTION)
log = get_logger(__name__)


class BusyGuard:
    """Answers 503 instead of `app` to requests beyond `MOST_REQUESTS`, except to those for health. It gives up requests
    whose client has left before they arrived whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._requests >= MOST_REQUESTS and scope.get("path") not in PROBES:
            problem = f"{self._requests} other requests are being answered"
            await JSONResponse({"problem": problem}, 503, {"retry-after": "1"})(scope, receive, send)
            return
        self._requests += 1
        try:
            with suppress(ClientDisconnect):
                await self._app(scope, receive, send)
        finally:
            self._requests -= 1


class AdminProtocol(H11Protocol):
    """An HTTP connection with limits of time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.waits_since = 0
        """Grows with each connection that begins to wait for a request."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """True if it waits for a request, or for the rest of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        with self._guard(transport):
            super().connection_made(transport)
            self._look()
            if len(self.connections) > MOST_CONNECTIONS:
                waiting = [each for each in self.connections if isinstance(each, AdminProtocol) and each.waits]
                others = (each for each in waiting if each is not self)
                min(others, key=lambda each: each.waits_since, default=self).abort()

    def data_received(self, data: bytes) -> None:
        with self._guard(self.transport):
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        if not self.flow.write_paused:
            self._stop_timer()
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        with self._guard(self.transport):
            super().pause_writing()
            self._start_timer(WRITE_TIMEOUT, self.abort)

    def resume_writing(self) -> None:
        with self._guard(self.transport):
            super().resume_writing()
            self._stop_timer()
            self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        with self._guard(self.transport):
            self._stop_timer()
            super().connection_lost(exc)

    def abort(self) -> None:
        self.transport.abort()

    @contextmanager
    def _guard(self, transport: asyncio.Transport) -> Iterator[None]:
        """Reports a failure, and closes the connection for it. uvloop would report no OSError."""
        try:
            yield
        except BaseException as problem:  # noqa: BLE001 - no code gets it
            transport.abort()
            report(_CONNECTION, problem)

    def _look(self) -> None:
        if self.flow.write_paused:  # the time to read the answer runs
            return
        if not self.waits:
            self._stop_timer()
        elif self._timer is None:
            self.waits_since = next(_WAITS)
            self._start_timer(REQUEST_TIMEOUT, self._expire)

    def _expire(self) -> None:
        if self.transport.get_write_buffer_size():
            self._start_timer(WRITE_TIMEOUT, self.abort)
        else:
            self.abort()

    def _start_timer(self, seconds: float, expired: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, guarded(_CONNECTION, expired, self.abort))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AdminServer(uvicorn.Server):
    """Serves an application at a listening socket, within the bounds of this module."""

    def __init__(self, app: ASGIApp, access: AdminAccess) -> None:
        config = uvicorn.Config(
            BusyGuard(app),
            lifespan="off",
            ws="none",
            http=AdminProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._access = access
        self._connecting: dict[asyncio.Task[None], None] = {}
        """TLS handshakes, the oldest first."""

    async def run_at(
        self, listening: socket.socket, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serves until cancelled, and closes the socket. `task_status` is started when connections are accepted."""
        with listening:
            listening.setblocking(False)
            accepting = begin(OwnedTask(TaskName.ADMIN), partial(self._accept, listening), self._end)
            task_status.started()
            try:
                await self.serve([])
            finally:
                for task in (accepting, *self._connecting):
                    task.cancel()
                if self.started:
                    with anyio.CancelScope(shield=True):
                        await self.shutdown([listening])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The application ends the whole process on a signal; this server must not handle it.
        yield

    def _end(self) -> None:
        self.should_exit = True

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                log.error("accepting connections failed", address="admin", reason=str(error))
                await anyio.sleep(OUT_OF_FILES_DELAY)
                continue
            task = begin(OwnedTask(TaskName.HANDSHAKE), partial(self._connect, accepted))
            self._connecting[task] = None
            task.add_done_callback(self._connecting.pop)
            if len(self._connecting) > MOST_HANDSHAKES:
                next(iter(self._connecting)).cancel()

    async def _connect(self, accepted: socket.socket) -> None:
        tls = self._access.tls
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_TIMEOUT,
            )
        except (OSError, ValueError) as problem:
            log.debug("connection to the admin address failed", reason=repr(problem))

    def _protocol(self) -> AdminProtocol:
        return AdminProtocol(self.config, self.server_state, self.lifespan.state)
