"""One client's connection to a pool: bytes to requests, results to bytes.

Requests of a connection are handled one after the other, as a Kafka broker does. A Fetch that is parked is answered
early when another request queues up behind it: some clients send heartbeats and commits on the same connection.

What a client can make the mesh keep is bounded: one request in work, what is read ahead of it (`MOST_QUEUED`,
`MOST_AHEAD`), one unfinished frame of 4 MiB at most, and one answer more than the transport's write buffer likes, for
nothing is read or taken up while the client does not read its answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import PendingRequest, Requests
from mesh.pool.apis.context import EmptyAnswer
from mesh.pool.core import PoolCore
from mesh.runtime.pool.step_loop import StepLoop
from mesh.wire.apis import ApiKey
from mesh.wire.connection import Request, ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.features import NO_FEATURES, Features
from mesh.wire.frames import MAX_REQUEST_BYTES
from mesh.wire.messages import ResponseMessage

MOST_QUEUED: Final = 100
"""Requests that may wait behind the one in work; beyond it nothing is read from the connection, until half are left."""
MOST_AHEAD: Final = 256 * 1024
"""Bytes that may be read while a request is in work, whatever they are; only their last piece may go beyond it."""
MOST_BEFORE_AUTHENTICATION: Final = 64 * 1024
"""Bytes of a request of a client that has not authenticated yet; the largest it may send holds a token."""

_PARKED: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Requests that wait for records."""


class PoolConnection(asyncio.Protocol):
    """One client's connection. in_work: the request that is being answered; those behind it wait."""

    def __init__(
        self,
        listener: Listener,
        core: PoolCore,
        step_loop: StepLoop,
        requests: Requests,
        versions: Mapping[ApiKey, tuple[int, int]],
    ) -> None:
        self.client = ClientTransport(listener, self)
        self.empty_answer = EmptyAnswer()
        self.in_work: PendingRequest | None = None
        self._listener = listener
        self._core = core
        self._step_loop = step_loop
        self._requests = requests
        self._wire = ServerConnection(versions, MOST_BEFORE_AUTHENTICATION)
        self._queue: deque[Request] = deque()
        self._ahead = 0

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client.open(transport)

    def data_received(self, data: bytes) -> None:
        if not self.client.is_open:
            return
        refused = self._wire.refused_versions
        try:
            received = self._wire.receive_data(data)
        except ProtocolError as problem:
            self.client.refuse(problem)
            return
        self._ahead += len(data)
        self._queue += received
        answered = self._wire.refused_versions - refused
        self.client.received(whole=bool(received or answered), unfinished=self._wire.has_unfinished_frame)
        if answered:
            self.client.write(self._wire.data_to_send())
            self.client.rest(max(self._listener.admission.take(self.client) for _ in range(answered)))
        self._step_loop.take_up(self)
        self._pace()

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.end()

    def pause_writing(self) -> None:
        self.client.pause_writing()

    def resume_writing(self) -> None:
        self.client.resume_writing()

    # Called by its transport

    def opened(self) -> None:
        self._core.connected(self.client.id, self.client.client_host)

    def established(self) -> None:
        assert self.client.session.principal is not None
        self._core.authenticated(self.client.id, self.client.session.principal)
        self._wire.limit_frames(self._listener.admission.limits.request or MAX_REQUEST_BYTES)

    def resumed(self) -> None:
        self._step_loop.take_up(self)

    def closed(self) -> None:
        self._queue.clear()
        if self.in_work is not None:
            self.in_work.work = None  # it names the request: no cycle may stay
            self.in_work = None
        self._step_loop.carry_out(self._core.disconnected(self.client.id, self._step_loop.now()))

    @property
    def is_busy(self) -> bool:
        return self.in_work is not None

    @property
    def has_unfinished_frame(self) -> bool:
        return self._wire.has_unfinished_frame

    # Called by the step loop, and by the requests

    def take_up(self) -> None:
        """Take up the next request, if none is in work; answer a parked Fetch early, if one waits behind it."""
        if not self._queue:
            return
        if self.in_work is not None:
            if self.in_work.request.api_key in _PARKED:
                self._requests.answer_early(self.in_work)
        elif self.client.may_be_served:
            self._requests.handle(self, self._queue.popleft())
            if self._queue:
                self._step_loop.take_up(self)

    def answer(self, request: Request, response: ResponseMessage | None) -> None:
        if response is None:
            self._wire.no_response(request)
        else:
            self._wire.answer(request, response)
        self.client.write(self._wire.data_to_send())
        if self._queue:
            self._step_loop.take_up(self)
        self._pace()

    def served(self) -> None:
        """Nothing but what there are handlers for."""

    def features(self) -> Features:
        return NO_FEATURES

    def _pace(self) -> None:
        if self.in_work is None and not self._queue:
            self._ahead = 0
        most = MOST_QUEUED // 2 if self.client.is_reading_paused else MOST_QUEUED
        self.client.pace(has_read_ahead=self._wire.held > most + 1 or self._ahead > MOST_AHEAD)
