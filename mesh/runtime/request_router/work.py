"""The requests of one connection that its router handles: they are decoded, and several are handled at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from mesh.listener.client_transport import ClientTransport
from mesh.routing.spi import Disconnect, Node, Request, Respond, RespondWithoutReply, Router, RouterResult
from mesh.runtime.relay.connection import UNCHARGED
from mesh.runtime.request_router.context import ConnectionContext
from mesh.runtime.request_router.services import RequestRouterServices
from mesh.tasks import OwnedTask, TaskName, begin, guarded
from mesh.telemetry.logs import get_logger
from mesh.wire.answer_queue import Ticket
from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Direction
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import body_of, client_id_in
from mesh.wire.reader import INT32
from mesh.wire.trees import write_pieces

log = get_logger(__name__)

MOST_AT_WORK: Final = 64
"""The most requests of one connection that its router works on. Above it, the connection is not read."""


class WorkOwner(Protocol):
    """The connection of a client. It is notified when a response is ready, and when a request is done."""

    @property
    def client(self) -> ClientTransport: ...

    def expect(self) -> Ticket: ...

    def leave(self, ticket: Ticket, parts: Sequence[Buffer]) -> None: ...

    def worked(self) -> None: ...


class RouterWork:
    """The router of one connection, and the requests that it handles. node: the node that the client connected to."""

    def __init__(self, services: RequestRouterServices, owner: WorkOwner, node: Node | None) -> None:
        self._services: Final = services
        self._owner: WorkOwner | None = owner
        self._client: Final = owner.client
        self._context: Final = ConnectionContext(services, owner.client, node)
        self._router: Final[Router] = services.router(owner.client)
        self._at_work: Final[set[asyncio.Task[None]]] = set()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._at_work) >= MOST_AT_WORK or self._bytes > self._services.largest_request()

    def __len__(self) -> int:
        return len(self._at_work)

    def begin(self, head: RequestHead, frame: memoryview) -> None:
        """Begins a request. frame: the request with its length; it must not change. Raises ProtocolError."""
        assert self._owner is not None
        api_key, version = ApiKey(head.api_key), head.api_version
        body = body_of(api_key, version, frame)
        tree = self._services.kind.reads(api_key, version, Direction.REQUEST, frame[body:])
        wants_answer = api_key is not ApiKey.PRODUCE or tree["acks"] != 0
        self._context.client_id = client_id_in(frame)
        ticket = self._owner.expect() if wants_answer else None
        self._bytes += len(frame)
        work = partial(self._work, head, Request(api_key, version, tree, wants_answer), ticket, len(frame))
        owned = OwnedTask(TaskName.REQUEST, self._services.listener.name)
        task = begin(owned, work, self._client.abort)
        self._at_work.add(task)
        task.add_done_callback(guarded(owned, self._worked, self._client.abort))

    def close(self) -> None:
        self._owner = None
        try:
            self._context.close()
        finally:
            for task in self._at_work:
                task.cancel()
            self._at_work.clear()
            self._close_router()

    def _close_router(self) -> None:
        try:
            self._router.close()
        except Exception:
            log.exception("router failed to close", virtual_cluster=self._services.listener.name)

    async def _work(self, head: RequestHead, request: Request, ticket: Ticket | None, size: int) -> None:
        try:
            self._take_result(head, request, await self._router.on_request(request, self._context), ticket)
        except Exception:
            log.exception(
                "connection closed: router failed",
                virtual_cluster=self._services.listener.name,
                api=request.api.name,
                connection=self._client.id,
            )
            self._client.abort()
        self._bytes -= size

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._at_work.discard(task)
        if self._owner is not None:
            self._owner.worked()

    def _take_result(self, head: RequestHead, request: Request, result: RouterResult, ticket: Ticket | None) -> None:
        listener, client = self._services.listener, self._client
        match result:
            case Respond(body=body) if ticket is not None:
                answer = _answer(head, request, body)
                if self._owner is not None:
                    self._owner.leave(ticket, answer)
            case RespondWithoutReply() if ticket is None:
                pass
            case Disconnect(reason=reason):
                log.info("connection closed by router", virtual_cluster=listener.name, reason=reason)
                client.close()
                return
            case _:
                wanted = "an answer" if ticket is not None else "none"
                raise TypeError(f"{request.api.name} wants {wanted}, and the router returned {result!r}")
        if request.api not in UNCHARGED and (throttle := listener.admission.charge_request(client)) > 0:
            listener.metrics.throttled(listener.name, request.api.name)
            client.throttle(throttle)


def _answer(head: RequestHead, request: Request, body: Mapping[str, object]) -> list[Buffer]:
    pieces = write_pieces(request.api, request.version, Direction.RESPONSE, dict(body))
    tags = b"\0" if has_tagged_response_header(request.api, request.version) else b""
    length = INT32.size + len(tags) + sum(map(len, pieces))
    return [INT32.pack(length) + INT32.pack(head.correlation_id) + tags, *pieces]
