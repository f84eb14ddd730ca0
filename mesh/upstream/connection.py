"""Our own connections to upstream brokers, which carry any request: an asyncio protocol around `mesh.wire.client`.

`BrokerLink` is what callers use: it connects when something is to be sent, lets itself in (TLS, SASL), asks for the
broker's versions, and connects again after a failure, not too soon. Requests are pipelined.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Final, cast

from mesh.security.client_properties import PLAIN, SCRAM
from mesh.security.scram_client import ScramClient, ScramRefused
from mesh.upstream.access import Access
from mesh.wire.client import messages
from mesh.wire.client.connection import ClientConnection, ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.errors import ProtocolError

Allocate = Callable[[int], bytearray]
_NONCE_BYTES: Final = 24


class Unreachable(Exception):
    """A broker cannot be reached, refuses us, does not answer, or answers what is not Kafka's protocol."""


class _Protocol(asyncio.BufferedProtocol):
    """One connection. Everything under way fails with it."""

    def __init__(self, client_id: str, allocate: Allocate) -> None:
        self._wire = ClientConnection(client_id, allocate)
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[ClientRequest, asyncio.Future[ClientResponse]] = {}
        self._failure: Unreachable | None = None
        self.versions: Mapping[int, VersionRange] = {}

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._failure is None

    def send(self, request: ClientRequest) -> asyncio.Future[ClientResponse]:
        future: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()
        if self._transport is None or self._failure is not None:
            future.set_exception(self._failure or Unreachable("the connection is closed"))
            return future
        self._waiting[request] = future
        self._transport.writelines(self._wire.send(request))
        return future

    def fail(self, reason: str) -> None:
        """Close, and tell everybody who waits."""
        if self._failure is None:
            self._failure = Unreachable(reason)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Unreachable(reason))
        if self._transport is not None:
            self._transport.abort()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            response = self._wire.received(nbytes)
        except ProtocolError as problem:
            self.fail(str(problem))
            return
        if response is not None:
            future = self._waiting.pop(response.request, None)
            if future is not None and not future.done():
                future.set_result(response)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(f"the connection was closed: {exc}" if exc else "the broker closed the connection")
        self._transport = None


class BrokerLink:
    """One broker, one connection at a time."""

    def __init__(self, host: str, port: int, access: Access, allocate: Allocate = bytearray) -> None:
        self.address: Final = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        self._host = host
        self._port = port
        self._access = access
        self._allocate = allocate
        self._connection: _Protocol | None = None
        self._connecting = asyncio.Lock()
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
        """For good."""
        self._closed = True
        if self._connection is not None:
            self._connection.fail("the connection was closed here")

    async def _answered(self, connection: _Protocol, request: ClientRequest, seconds: float) -> ClientResponse:
        try:
            async with asyncio.timeout(seconds):
                return await connection.send(request)
        except TimeoutError:
            # What comes behind it on this connection would wait as well.
            reason = f"no answer within {seconds:g} s"
            connection.fail(reason)
            raise Unreachable(reason) from None

    async def _connected(self) -> _Protocol:
        if (connection := self._connection) is not None and connection.is_open:
            return connection
        async with self._connecting:
            if (connection := self._connection) is not None and connection.is_open:
                return connection
            if self._closed:
                raise Unreachable("the connection was closed here")
            await asyncio.sleep(self._backoff)
            self._backoff = min(max(self._backoff * 2, self._access.backoff), self._access.most_backoff)
            self._connection = await self._connect()
            self._backoff = 0.0
            return self._connection

    async def _connect(self) -> _Protocol:
        access = self._access
        connection = _Protocol(access.client_id, self._allocate)
        try:
            async with asyncio.timeout(access.setup_timeout):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    self._host,
                    self._port,
                    ssl=access.tls,
                    server_hostname=self._host if access.tls is not None else None,
                )
                if access.mechanism is not None:
                    await self._authenticate(connection, access.mechanism)
                answer = await connection.send(messages.api_versions_request())
                connection.versions = messages.decode_api_versions(answer)
        except TimeoutError:
            reason = f"no connection within {access.setup_timeout:g} s"
        except (OSError, ProtocolError, ScramRefused) as problem:  # SSLError is an OSError
            reason = str(problem) or repr(problem)
        except Unreachable as problem:
            reason = str(problem)
        else:
            if not self._closed:
                return connection
            reason = "the connection was closed here"
        connection.fail(reason)
        raise Unreachable(reason)

    async def _authenticate(self, connection: _Protocol, mechanism: str) -> None:
        answer = await connection.send(messages.sasl_handshake_request(mechanism))
        error, known = messages.decode_sasl_handshake(answer)
        if error:
            raise Unreachable(f"the broker does not know the SASL mechanism {mechanism}; it has {', '.join(known)}")
        name, password = self._access.username, self._access.password
        if mechanism == PLAIN:
            await self._token(connection, f"\0{name}\0{password}".encode())
            return
        client = ScramClient(SCRAM[mechanism], name, password, secrets.token_urlsafe(_NONCE_BYTES))
        challenge = await self._token(connection, client.first())
        proof = await asyncio.to_thread(client.final, challenge)
        client.check(await self._token(connection, proof))

    async def _token(self, connection: _Protocol, token: bytes) -> bytes:
        answer = await connection.send(messages.sasl_authenticate_request(token))
        error, message, token = messages.decode_sasl_authenticate(answer)
        if error:
            raise Unreachable(f"SASL authentication was refused: {message or f'error {error}'}")
        return token
