"""The mesh's own connections to upstream brokers, which carry any request: an asyncio protocol around
`mesh.wire.client`.

Callers use `BrokerLink`; `mesh.upstream.links.nodes.Nodes` knows the brokers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import CLOSED, Allocate, RequestConnection, Unreachable, connect
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange

_JITTER: Final = 0.2
"""The random part of a delay, so that links that failed together do not reconnect together."""


class BrokerLink:
    """A link to one broker, with at most one connection to it, which carries any request.

    * It connects when a request is to be sent: TLS and SASL as in the cluster's properties, then ApiVersions. All
      callers that wait for a connection share the attempt, and its failure.
    * Requests are pipelined, and answered in their order. If one is not answered in time, the link closes the
      connection, since all requests behind it would wait as well. Everything in flight then fails with `Unreachable`,
      and the link sends nothing twice by itself. An unexpected response, or one longer than `MAX_RESPONSE_BYTES`, does
      the same.
    * After a failure the next attempt waits, longer each time, up to `most_backoff`, until a request was answered.
    * Before a SASL session ends (KIP-368) new requests go over another connection, and the old one is closed after its
      last answer.

    Responses are whole frames in buffers from `allocate`, valid for as long as something refers to them.
    """

    def __init__(self, host: str, port: int, settings: ConnectionSettings, allocate: Allocate = bytearray) -> None:
        self.address: Final = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        self._host = host
        self._port = port
        self._settings = settings
        self._allocate = allocate
        self._connection: RequestConnection | None = None
        self._attempt: asyncio.Task[RequestConnection] | None = None
        self._backoff = 0.0
        self._closed = False

    async def versions(self) -> Mapping[int, VersionRange]:
        """Returns the versions that the broker serves, by API key. Raises Unreachable."""
        return (await self._connected()).versions

    async def request(self, request: ClientRequest, waits: float = 0.0) -> ClientResponse:
        """Sends a request and returns its response. waits: seconds for which the request lets the broker delay its
        answer. Raises Unreachable."""
        return await (await self.send(request, waits))

    async def send(self, request: ClientRequest, waits: float = 0.0) -> Coroutine[Any, Any, ClientResponse]:
        """Sends a request, and returns a coroutine for its answer, which must be awaited at once. Otherwise like
        `request`."""
        connection = await self._connected()
        return self._answered(connection, connection.send(request), self._settings.request_timeout + waits)

    def close(self) -> None:
        """Closes the link for good; requests in flight fail."""
        self._closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.fail(CLOSED)

    async def _answered(
        self, connection: RequestConnection, answer: asyncio.Future[ClientResponse], seconds: float
    ) -> ClientResponse:
        try:
            async with asyncio.timeout(seconds):
                response = await answer
        except TimeoutError:
            reason = f"no answer within {seconds:g} s"
            connection.fail(reason)
            raise Unreachable(reason) from None
        self._backoff = 0.0
        return response

    async def _connected(self) -> RequestConnection:
        loop = asyncio.get_running_loop()
        if (connection := self._connection) is not None and connection.is_open:
            if loop.time() < connection.ends_at:
                return connection
            connection.retire()
            self._connection = None
        if self._closed:
            raise Unreachable(CLOSED)
        if (attempt := self._attempt) is None:
            attempt = self._attempt = loop.create_task(self._connect_in_time(), name=f"connect to {self.address}")
            attempt.add_done_callback(self._attempted)
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if attempt.cancelled() and not (waiter is not None and waiter.cancelling()):
                raise Unreachable(CLOSED) from None  # `close` cancelled the attempt, not the caller
            raise

    def _attempted(self, attempt: asyncio.Task[RequestConnection]) -> None:
        self._attempt = None
        if attempt.cancelled() or attempt.exception() is not None:
            return
        self._connection = attempt.result()

    async def _connect_in_time(self) -> RequestConnection:
        await asyncio.sleep(self._backoff * random.uniform(1 - _JITTER, 1))
        self._backoff = min(max(self._backoff * 2, self._settings.backoff), self._settings.most_backoff)
        return await connect(self._host, self._port, self._settings, self._allocate)
