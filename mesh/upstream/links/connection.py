"""Our own connections to upstream brokers, which carry any request: an asyncio protocol around `mesh.wire.client`.

`BrokerLink` is what callers use; which brokers there are is known to `mesh.upstream.links.nodes.Nodes`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import CLOSED, Allocate, RequestConnection, Unreachable, connect
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange

_JITTER: Final = 0.2
"""So that many links that failed together do not come back together."""


class BrokerLink:
    """One broker, and at most one connection to it, which carries any request.

    * It connects when something is to be sent: TLS and SASL as the cluster's properties ask for, then the versions that
      the broker serves. Whoever waits for a connection shares the attempt, and its failure.
    * Requests are pipelined, and answered in their order. One that is not answered in time takes the connection with
      it, since all behind it would wait as well; everything under way then fails with `Unreachable`, and nothing is
      sent twice by itself. A response that was not asked for, or is longer than `MAX_RESPONSE_BYTES`, does the same.
    * After a failure the next attempt waits, longer each time, up to `most_backoff`, until a request was answered.
    * Before a SASL session ends (KIP-368) new requests go over another connection, and the old one is closed when its
      last answer is there.

    Responses are whole frames in buffers that `allocate` gives, valid for as long as somebody holds on to them.
    """

    def __init__(self, host: str, port: int, access: ConnectionSettings, allocate: Allocate = bytearray) -> None:
        self.address: Final = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        self._host = host
        self._port = port
        self._access = access
        self._allocate = allocate
        self._connection: RequestConnection | None = None
        self._attempt: asyncio.Task[RequestConnection] | None = None
        self._backoff = 0.0
        self._closed = False

    async def versions(self) -> Mapping[int, VersionRange]:
        """What the broker serves, by API key. Raises Unreachable."""
        return (await self._connected()).versions

    async def request(self, request: ClientRequest, waits: float = 0.0) -> ClientResponse:
        """waits: seconds for which the broker is asked to hold back its answer. Raises Unreachable."""
        connection = await self._connected()
        return await self._answered(connection, request, self._access.request_timeout + waits)

    def close(self) -> None:
        """For good; what is under way fails."""
        self._closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.fail(CLOSED)

    async def _answered(self, connection: RequestConnection, request: ClientRequest, seconds: float) -> ClientResponse:
        try:
            async with asyncio.timeout(seconds):
                response = await connection.send(request)
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
                raise Unreachable(CLOSED) from None  # by `close`, and not whoever waits here
            raise

    def _attempted(self, attempt: asyncio.Task[RequestConnection]) -> None:
        self._attempt = None
        if attempt.cancelled() or attempt.exception() is not None:
            return
        self._connection = attempt.result()

    async def _connect_in_time(self) -> RequestConnection:
        await asyncio.sleep(self._backoff * random.uniform(1 - _JITTER, 1))
        self._backoff = min(max(self._backoff * 2, self._access.backoff), self._access.most_backoff)
        return await connect(self._host, self._port, self._access, self._allocate)
