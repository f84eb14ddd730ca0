"""The connection of one client to a pool: turns bytes into requests, and results into bytes.

The requests of a connection are handled one after the other, as by a Kafka broker. A parked Fetch is answered early
when another request queues up behind it: some clients send heartbeats and commits on the same connection.

A client can make the mesh keep only this much: one request in work, the requests behind it (`MOST_QUEUED`,
`MOST_AHEAD`), one unfinished frame of 4 MiB at most, and one response beyond the transport's write buffer. Nothing is
read or handled while the client does not read its responses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from mesh.listener.client_transport import ClientTransport
from mesh.listener.guarded_connection import GuardedConnection
from mesh.listener.listener import Listener
from mesh.listener.requests import PendingRequest, Requests
from mesh.pool.apis.context import EmptyAnswer
from mesh.pool.core import PoolCore
from mesh.runtime.pool.step_loop import StepLoop
from mesh.wire.apis import ApiKey
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.frames import MAX_REQUEST_BYTES
from mesh.wire.messages import ResponseMessage

MOST_QUEUED: Final = 100
"""The most requests that wait behind the one that is being handled. Above it, the connection is not read until half of
them are left."""
MOST_AHEAD: Final = 256 * 1024
"""The most bytes that are read while a request is being handled; only the last piece may exceed it."""
MOST_BEFORE_AUTHENTICATION: Final = 64 * 1024
"""The most bytes of a request before authentication; it may carry a token."""

_PARKED: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Requests that wait for records."""


class PoolConnection(GuardedConnection, asyncio.Protocol):
    """The connection of one client. current_request: the request that is being handled; those behind it wait."""

    def __init__(
        self,
        listener: Listener,
        core: PoolCore,
        step_loop: StepLoop,
        requests: Requests,
        versions: Mapping[ApiKey, tuple[int, int]],
        node: int = 0,
    ) -> None:
        """node: the id of the node that the client connected to, as clients see it; 0 for none."""
        self.client = ClientTransport(listener, self)
        self.empty_answer = EmptyAnswer()
        self.current_request: PendingRequest | None = None
        self._listener = listener
        self._core = core
        self._step_loop = step_loop
        self._requests = requests
        self._wire = ServerConnection(versions, MOST_BEFORE_AUTHENTICATION)
        self._node = node
        self._queue: deque[FramedRequest] = deque()
        self._ahead = 0

    # Called by the event loop

    def data_received(self, data: bytes) -> None:
        try:
            if not self.client.is_open:
                return
            received = self._wire.receive_data(data)
            self._ahead += len(data)
            self._queue += received
            self.client.received(whole=bool(received), unfinished=self._wire.has_unfinished_frame)
            self._step_loop.schedule(self)
            self._pace()
        except ProtocolError as problem:
            self.client.refuse(problem)
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self.client.failed(problem)

    # Called by its transport

    def opened(self) -> None:
        self._core.connected(self.client.id, self.client.client_host, self._node)

    def established(self) -> None:
        assert self.client.session.principal is not None
        self._core.authenticated(self.client.id, self.client.session.principal)
        self._wire.limit_frames(self._listener.admission.limits.request or MAX_REQUEST_BYTES)

    def resumed(self) -> None:
        self._step_loop.schedule(self)

    def closed(self) -> None:
        self._queue.clear()
        if self.current_request is not None:
            self.current_request.work = None  # break the cycle: the work names the request
            self.current_request = None
        self._step_loop.carry_out(self._core.disconnected(self.client.id, self._step_loop.now()))

    @property
    def is_busy(self) -> bool:
        return self.current_request is not None

    @property
    def has_unfinished_frame(self) -> bool:
        return self._wire.has_unfinished_frame

    # Called by the step loop, and by the requests

    def handle_next(self) -> None:
        """Handles the next request, if none is being handled. A parked Fetch is answered early, if a request waits
        behind it."""
        try:
            if not self._queue:
                return
            if self.current_request is not None:
                if self.current_request.request.api_key in _PARKED:
                    self._requests.answer_early(self.current_request)
            elif self.client.may_be_served:
                self._requests.handle(self, self._queue.popleft())
                if self._queue:
                    self._step_loop.schedule(self)
        except BaseException as problem:  # noqa: BLE001 - see GuardedConnection
            self.client.failed(problem)

    def answer(self, request: FramedRequest, response: ResponseMessage | None) -> None:
        if response is None:
            self._wire.no_response(request)
        else:
            self._wire.answer(request, response)
        self.client.write(self._wire.data_to_send())
        if self._queue:
            self._step_loop.schedule(self)
        self._pace()

    def served(self) -> None:
        """Returns None: ApiVersions lists the versions of the APIs with handlers."""

    def features(self) -> Features:
        return NO_FEATURES

    def _pace(self) -> None:
        if self.current_request is None and not self._queue:
            self._ahead = 0
        most = MOST_QUEUED // 2 if self.client.is_reading_paused else MOST_QUEUED
        self.client.pace(has_read_ahead=self._wire.held > most + 1 or self._ahead > MOST_AHEAD)
